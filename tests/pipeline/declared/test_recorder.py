"""What definition files declare, as an always-on run sees it. No Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tidelog.pipeline.declared.recorder import DefinitionRefused, Recorder, SqlSession

pytestmark = pytest.mark.slow  # to import pyspark takes a second


def recorded(declare: Callable[[Any], None]) -> Recorder:
    from pyspark import pipelines
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    recorder = Recorder()
    with graph_element_registration_context(recorder):
        declare(pipelines)
    return recorder


def rows_of(recorder: Recorder, flow: str) -> object:
    """What a flow would give a session whose queries are their own texts."""
    echo: Any = SqlSession(cast("Any", str))
    return recorder.flows[flow].rows(echo)


def twice(dp: Any) -> None:
    shop(dp)
    dp.append_flow(target="out", name="to_topic")(lambda: None)


def shop(dp: Any) -> None:
    dp.create_sink("out", "tidelog", {"topic": "t"})
    dp.temporary_view(name="orders")(lambda: "rows of the view")
    dp.append_flow(target="out", name="to_topic", spark_conf={"a": "b"})(lambda: "rows for the topic")
    dp.table(name="archive", format="parquet", partition_cols=["day"])(lambda: "rows for the table")


def test_sinks_tables_views_and_flows_are_told_apart() -> None:
    found = recorded(shop)
    found.check()
    assert (found.sinks["out"].format, found.sinks["out"].options) == ("tidelog", {"topic": "t"})
    assert (found.tables["archive"].format, found.tables["archive"].partition_columns) == ("parquet", ("day",))
    assert list(found.views) == ["orders"]
    assert {name: (flow.target, flow.settings) for name, flow in found.flows.items()} == {
        "to_topic": ("out", {"a": "b"}),
        "archive": ("archive", {}),
    }
    assert rows_of(found, "to_topic") == "rows for the topic"


def test_sql_is_recorded_beside_python() -> None:
    found = recorded(shop)
    found.register_sql(
        "CREATE STREAMING TABLE more AS SELECT 1;\nCREATE FLOW f AS INSERT INTO archive BY NAME SELECT 2", Path("a.sql")
    )
    assert (found.flows["more"].target, rows_of(found, "more")) == ("more", "SELECT 1")
    assert (found.flows["f"].target, rows_of(found, "f")) == ("archive", "SELECT 2")
    assert found.flows["f"].place == "a.sql, line 2"


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda dp: dp.materialized_view(name="by_key")(lambda: None), "by_key is a materialized view, which is computed anew"),
        (lambda dp: dp.append_flow(target="nowhere", name="f")(lambda: None), "the flow f writes to nowhere, which is no sink"),
        (lambda _: None, "nothing is declared that could run"),
        (lambda dp: [dp.create_sink("a", "x", {}), dp.create_sink("a", "x", {})], "a is declared twice"),
        (twice, "to_topic is declared twice"),
    ],
)  # fmt: skip
def test_what_cannot_run_always_on_is_refused_by_name(declare: Callable[[Any], None], said: str) -> None:
    with pytest.raises(DefinitionRefused, match=said):
        recorded(declare).check()


def test_a_refusal_has_file_and_line() -> None:
    def declare(dp: Any) -> None:
        dp.materialized_view(name="by_key")(lambda: None)

    with pytest.raises(DefinitionRefused, match=rf"{Path(__file__).name}, line \d+: by_key"):
        recorded(declare)


def test_a_materialized_view_in_sql_is_refused_by_name() -> None:
    with pytest.raises(DefinitionRefused, match=r"b.sql, line 2: by_key is a materialized view"):
        Recorder().register_sql("\nCREATE MATERIALIZED VIEW by_key AS SELECT 1", Path("b.sql"))
