"""Bytes as Java's consumer writes them, and anybody's bytes read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.groups.subscription_codec import (
    MemberAssignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from tidelog.model import TopicPartition
from tidelog.wire.errors import MalformedMessage

FULL = Subscription(
    topics=("b", "a"), user_data=b"\1\2", owned=(TopicPartition("a", 1), TopicPartition("a", 0)), generation=5, rack="r"
)


def test_subscription_has_javas_bytes() -> None:
    assert write_subscription(FULL) == (
        b"\0\3"  # version
        b"\0\0\0\2\0\1a\0\1b"  # topics, sorted
        b"\0\0\0\2\1\2"  # user data
        b"\0\0\0\1\0\1a\0\0\0\2\0\0\0\0\0\0\0\1"  # owned
        b"\0\0\0\5"  # generation
        b"\0\1r"  # rack
    )


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_versions_leave_out_what_they_do_not_know(version: int) -> None:
    read = read_subscription(write_subscription(FULL, version=version))
    assert read.topics == ("a", "b")
    assert read.user_data == b"\1\2"
    assert read.owned == (tuple(sorted(FULL.owned)) if version >= 1 else ())
    assert read.generation == (5 if version >= 2 else -1)
    assert read.rack == ("r" if version >= 3 else None)


def test_newer_version_is_read_as_far_as_we_know_it() -> None:
    data = b"\0\7" + write_subscription(FULL)[2:] + b"something new"
    assert read_subscription(data) == read_subscription(write_subscription(FULL))


def test_assignment_has_javas_bytes_and_comes_back() -> None:
    assignment = MemberAssignment(partitions=(TopicPartition("t", 0), TopicPartition("t", 2)))
    data = write_assignment(assignment)
    assert data == b"\0\3\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\2\xff\xff\xff\xff"
    assert read_assignment(data) == assignment


def test_no_bytes_assign_nothing() -> None:
    assert read_assignment(b"").partitions == ()


@given(data=st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except MalformedMessage:
            continue
