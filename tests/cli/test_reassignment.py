"""Where partitions shall go, from options and from files."""

from __future__ import annotations

import argparse
import json

import pytest

from tidelog.cli.failure import WrongUsage
from tidelog.cli.reassignment import as_file, parse_brokers, parse_file, spread
from tidelog.cli.topics_reassign import add_reassign, check_usage
from tidelog.model import TopicPartition

A, B, C, D = (TopicPartition("t", index) for index in range(4))


def test_brokers_are_a_list_of_different_numbers() -> None:
    assert parse_brokers("1, 2,3") == (1, 2, 3)
    for nonsense in ("", "1,", "a", "1,1", "-1"):
        with pytest.raises(ValueError, match=r"list of broker ids|twice"):
            parse_brokers(nonsense)


def test_the_partitions_of_a_topic_take_turns_in_their_preferred_leader() -> None:
    assert spread([A, B, C, D], (7, 8, 9)) == {A: (7, 8, 9), B: (8, 9, 7), C: (9, 7, 8), D: (7, 8, 9)}


def test_one_partition_goes_exactly_where_it_is_told() -> None:
    assert spread([C], (7, 8, 9)) == {C: (7, 8, 9)}


def test_the_file_is_that_of_kafkas_own_tool() -> None:
    text = '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3,1],"log_dirs":["any","any"]}]}'
    assert parse_file(text) == {B: (3, 1)}
    assert parse_file(as_file({A: (1, 2), B: (3,)})) == {A: (1, 2), B: (3,)}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"partitions": 1},
        {"version": 2, "partitions": []},
        {"partitions": []},
        {"partitions": [7]},
        {"partitions": [{"topic": "t", "partition": 0}]},
        {"partitions": [{"topic": "t", "partition": True, "replicas": [1]}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2},
    ],
)
def test_another_file_is_refused_with_a_reason(content: object) -> None:
    with pytest.raises(ValueError, match=r"it |twice|has no|different"):
        parse_file(json.dumps(content))


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_reassign(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-t", "x"],
        ["--to", "1"],
        ["--file", "f", "-t", "x"],
        ["--list", "--to", "1"],
        ["--cancel", "-t", "x", "--to", "1"],
    ],
)
def test_options_that_say_too_little_or_too_much_are_refused(words: list[str]) -> None:
    with pytest.raises(WrongUsage):
        check_usage(options(*words))


@pytest.mark.parametrize(
    "words", [["-t", "x", "--to", "1,2"], ["--file", "f"], ["--list"], ["--cancel"], ["--cancel", "-t", "x:0"]]
)
def test_options_that_say_one_thing_are_fine(words: list[str]) -> None:
    check_usage(options(*words))
