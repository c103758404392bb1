"""What `tidelog replicas` makes of what brokers say."""

from __future__ import annotations

import dataclasses

import pytest

from tidelog.cli.output import Row
from tidelog.cli.replica_table import COLUMNS, ago, replica_rows
from tidelog.cli.replicas import fitting, live_table
from tidelog.client import RemoteReplica, ReplicaDescription
from tidelog.model import ErrorCode, TopicPartition

NOW_MS = 1_000_000


def replica(
    *, is_leader: bool = False, end: int = 10, epoch: int = 4, isr: tuple[int, ...] = (1, 2), code: int = 0
) -> ReplicaDescription:
    remotes = (
        RemoteReplica(broker_id=2, log_end_offset=8, last_caught_up_ms=NOW_MS - 300),
        RemoteReplica(broker_id=3, log_end_offset=5, last_caught_up_ms=NOW_MS - 45_000),
    )
    return ReplicaDescription(
        topic_partition=TopicPartition("orders", 0),
        topic_id=None,
        code=ErrorCode(code),
        is_leader=is_leader,
        leader_id=1,
        leader_epoch=epoch,
        last_epoch=epoch,
        log_start_offset=0,
        log_end_offset=end,
        high_watermark=8,
        last_stable_offset=7,
        isr=isr,
        assignment=(1, 2, 3),
        remotes=remotes if is_leader else (),
    )


def shown(rows: list[Row], *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_every_replica_has_a_row_in_the_order_of_the_assignment() -> None:
    answers = {3: [replica(end=5)], 2: [replica(end=8)], 1: [replica(is_leader=True)]}
    rows = replica_rows(answers, now_ms=NOW_MS)
    assert shown(rows, "broker", "role", "log_end_offset", "lag", "in_isr", "last_caught_up") == [
        (1, "leader", 10, 0, True, None),
        (2, "follower", 8, 2, True, "now"),
        (3, "follower", 5, 5, False, "45 s ago"),
    ]
    assert shown(rows[:1], "leader_epoch", "high_watermark", "last_stable_offset") == [(4, 8, 7)]
    assert set(COLUMNS) <= set(rows[0])


def test_internal_topics_come_last_so_that_a_terminal_shows_those_of_users() -> None:
    internal = [
        dataclasses.replace(replica(is_leader=True), topic_partition=TopicPartition("__consumer_offsets", index))
        for index in range(50)
    ]
    rows = replica_rows({1: [*internal, replica(is_leader=True)]}, now_ms=NOW_MS)
    assert [row["topic"] for row in rows[:4]] == ["orders"] * 3 + ["__consumer_offsets"]


def test_a_broker_that_does_not_answer_is_shown_as_its_leader_last_saw_it() -> None:
    rows = replica_rows({1: [replica(is_leader=True)], 2: [replica(end=8)]}, now_ms=NOW_MS)
    assert shown(rows[2:], "broker", "role", "leader_epoch", "log_end_offset", "lag", "in_isr") == [
        (3, "no answer", None, 5, 5, False)
    ]


def test_of_two_that_say_they_lead_the_newer_epoch_is_believed() -> None:
    answers = {1: [replica(is_leader=True, end=99, isr=(1,))], 2: [replica(is_leader=True, epoch=5, isr=(2, 3))]}
    rows = replica_rows(answers, now_ms=NOW_MS)
    assert shown(rows, "broker", "role", "in_isr") == [
        (1, "old leader", False),
        (2, "leader", True),
        (3, "no answer", True),
    ]


def test_a_follower_that_has_everything_is_caught_up_however_long_nothing_came() -> None:
    [_, second, _] = replica_rows({1: [replica(is_leader=True, end=8)]}, now_ms=NOW_MS + 3_600_000)
    assert second["last_caught_up"] == "now"
    assert second["last_caught_up_ms"] == NOW_MS - 300


def test_without_a_leader_there_is_no_lag_and_the_replicas_own_word_counts() -> None:
    rows = replica_rows({2: [replica(end=8)], 3: [replica(end=5)]}, now_ms=NOW_MS)
    assert shown(rows, "broker", "lag", "in_isr") == [(1, None, False), (2, None, True), (3, None, False)]


def test_a_replica_whose_disk_failed_shows_its_error_and_no_offsets() -> None:
    answers = {1: [replica(is_leader=True)], 2: [replica(end=-1, code=ErrorCode.KAFKA_STORAGE_ERROR)]}
    row = replica_rows(answers, now_ms=NOW_MS)[1]
    assert shown([row], "role", "leader_epoch", "high_watermark", "log_end_offset") == [
        ("kafka_storage_error", None, None, 8)
    ]


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [(-50, "now"), (999, "now"), (1_000, "1 s ago"), (119_000, "119 s ago"), (120_000, "2 min ago"),
     (7_200_000, "2 h ago"), (200_000_000, "2 d ago")],
)  # fmt: skip
def test_times_are_told_in_a_word_or_two(elapsed_ms: int, text: str) -> None:
    assert ago(elapsed_ms) == text


def test_a_table_that_is_too_tall_for_the_terminal_says_what_it_leaves_out() -> None:
    table = "".join(f"{number}\n" for number in range(10))
    assert fitting(table, 20) == table
    assert fitting(table, 5) == "0\n1\n2\n... 7 more; -t TOPIC chooses\n"


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (
            200,
            "TOPIC PARTITION BROKER ROLE LEADER-EPOCH LOG-END-OFFSET HIGH-WATERMARK LAST-STABLE-OFFSET LAG IN-ISR LAST-CAUGHT-UP",
        ),
        (100, "TOPIC PART BROKER ROLE EPOCH LEO HW LSO LAG IN-ISR CAUGHT-UP"),
        (72, "TOPIC PART BROKER ROLE EPOCH LEO HW LAG IN-ISR CAUGHT-UP"),
        (64, "TOPIC PART BROKER ROLE EPOCH LEO HW LAG IN-ISR"),
    ],
)
def test_a_live_table_fits_the_width_of_its_terminal(width: int, names: str) -> None:
    table = live_table(replica_rows({1: [replica(is_leader=True)]}, now_ms=NOW_MS), width, in_colour=False)
    assert table.splitlines()[0].split() == names.split()
    assert max(map(len, table.splitlines())) <= width
