"""`tidelog configs`: whose settings, which changes, and how a setting is shown."""

from __future__ import annotations

import argparse

import pytest

from tidelog.cli.config_changes import Change, Operation, Resource, ResourceKind, parse_resource
from tidelog.cli.configs import changes_of, config_row
from tidelog.cli.main import parser_for
from tidelog.cli.topics_altering import parse_before
from tidelog.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


def parsed(*words: str) -> argparse.Namespace:
    return parser_for(words).parse_args(words)


@pytest.mark.parametrize(
    ("kind", "name", "resource"),
    [
        ("topic", "orders", Resource(ResourceKind.TOPIC, "orders")),
        ("broker", "7", Resource(ResourceKind.BROKER, "7")),
        ("broker", "default", Resource(ResourceKind.BROKER, "")),
    ],
)
def test_a_resource_is_a_topic_a_broker_or_all_brokers(kind: str, name: str, resource: Resource) -> None:
    assert parse_resource(kind, name) == resource


def test_a_broker_is_a_number() -> None:
    with pytest.raises(ValueError, match="broker's number"):
        parse_resource("broker", "orders")


def test_changes_are_read_from_the_options() -> None:
    options = parsed(
        "configs", "alter", "topic", "orders", "--set", "a=1", "--unset", "b", "--append", "c=2", "--subtract", "d=3"
    )
    assert changes_of(options) == [
        Change(Operation.SET, "a", "1"),
        Change(Operation.APPEND, "c", "2"),
        Change(Operation.SUBTRACT, "d", "3"),
        Change(Operation.DELETE, "b"),
    ]


def test_a_setting_says_where_it_comes_from_and_hides_secrets() -> None:
    synonym = DescribeConfigsSynonym(name="log.retention.ms", value="1", source=4)
    plain = DescribeConfigsResourceResult(
        name="retention.ms", value="1", read_only=False, is_sensitive=False, config_source=1, synonyms=(synonym,)
    )
    secret = DescribeConfigsResourceResult(name="x", value=None, read_only=True, is_sensitive=True, config_source=4)
    row = config_row(plain)
    assert (row["name"], row["value"], row["source"]) == ("retention.ms", "1", "topic")
    assert row["synonyms"] == [{"name": "log.retention.ms", "value": "1", "source": "static"}]
    assert config_row(secret)["value"] == "(hidden)"


@pytest.mark.parametrize(("text", "offset"), [("0", 0), ("1200", 1200), ("end", -1)])
def test_records_are_deleted_before_an_offset_or_all(text: str, offset: int) -> None:
    assert parse_before(text) == offset


@pytest.mark.parametrize("text", ["-1", "x", "9223372036854775808", ""])
def test_other_offsets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no offset"):
        parse_before(text)
