"""`orders` and `orders:3`."""

from __future__ import annotations

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.partition_names import Wanted, chosen, parse_wanted, topics_of
from tidelog.model import TopicPartition


def test_a_topic_or_one_partition_of_it() -> None:
    assert parse_wanted("orders") == Wanted("orders", None)
    assert parse_wanted("orders:12") == Wanted("orders", 12)
    assert str(parse_wanted("orders:12")) == "orders:12"


@pytest.mark.parametrize("text", ["", ":1", "orders:", "orders:x", "orders:-1", "a:1:2"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TOPIC:PARTITION"):
        parse_wanted(text)


def test_partitions_are_chosen_once_each() -> None:
    wanted = [Wanted("b", 1), Wanted("a", None), Wanted("a", 0)]
    assert topics_of(wanted) == ["b", "a"]
    assert chosen(wanted, {"a": 2, "b": 3}) == [
        TopicPartition("b", 1),
        TopicPartition("a", 0),
        TopicPartition("a", 1),
    ]


def test_one_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandFailed, match="'a' has 2 partition"):
        chosen([Wanted("a", 2)], {"a": 2})
