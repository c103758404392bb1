"""`--registry`, as people write it."""

from __future__ import annotations

import pytest

from tidelog.cli.registry_address import zookeeper_connect


@pytest.mark.parametrize("connect", ["h", "h:1", "h:2181,other:2182", "h:1/chroot", "h:1,i:2/a/b", "[::1]:2181"])
def test_what_follows_the_scheme_is_what_kafka_calls_zookeeper_connect(connect: str) -> None:
    assert zookeeper_connect(f"zookeeper://{connect}") == connect


@pytest.mark.parametrize(
    "address",
    ["", "h:1", "zookeeper://", "zookeeper://h:0", "zookeeper://h:1,", "zookeeper://h:1/",
     "zookeeper://h:1/a//b", "zookeeper://h:999999", "sqlite://x"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_right_form(address: str) -> None:
    with pytest.raises(ValueError, match="zookeeper://HOST:PORT"):
        zookeeper_connect(address)
