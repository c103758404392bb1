"""What Spark's runner calls things, and where it puts their checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipeline.declared.names import Names
from tidelog.pipeline.declared.places import Places
from tidelog.pipeline.declared.spec import parse_spec

NAMES = Names.of(parse_spec("{name: a, storage: /s}", Path("/p/spark-pipeline.yml")))
OF_SHOP = Names.of(parse_spec("{name: a, storage: /s, database: shop}", Path("/p/spark-pipeline.yml")))


@pytest.mark.parametrize(
    ("names", "whole", "short"),
    [
        (NAMES, "spark_catalog.default.orders", "orders"),
        (NAMES, "`spark_catalog`.`default`.`orders`", "orders"),
        (NAMES, "orders", "orders"),
        (NAMES, "spark_catalog.shop.orders", "shop.orders"),
        (OF_SHOP, "spark_catalog.shop.orders", "orders"),
    ],
)
def test_names_are_shown_as_their_authors_wrote_them(names: Names, whole: str, short: str) -> None:
    assert names.short(whole) == short


def test_tables_have_whole_names_and_sinks_have_not() -> None:
    assert NAMES.of_table("orders") == ("spark_catalog", "default", "orders")
    assert OF_SHOP.of_table("orders") == ("spark_catalog", "shop", "orders")
    assert NAMES.of_table("other.orders") == ("spark_catalog", "other", "orders")
    assert NAMES.of_table("c.d.orders") == ("c", "d", "orders")


def test_checkpoints_are_where_sparks_runner_has_them() -> None:
    places = Places(Path("/s"))
    assert places.checkpoints(("out",), "to_topic") == Path("/s/_checkpoints/out/to_topic")
    of_table = places.checkpoints(NAMES.of_table("orders"), "orders")
    assert of_table == Path("/s/_checkpoints/spark_catalog/default/orders/orders")
