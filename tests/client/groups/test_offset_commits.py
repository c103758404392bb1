"""What is said about offsets, what answers mean, and when to commit without being asked."""

from __future__ import annotations

import pytest

from tidelog.client.fetched import ConsumedRecord
from tidelog.client.groups.membership import Identity
from tidelog.client.groups.offset_commits import (
    AutoCommit,
    Committed,
    CommitVerdict,
    commit_request,
    fetch_request,
    judge_commit,
    offsets_after,
    read_fetch,
)
from tidelog.model import ErrorCode, TimestampType, TopicPartition
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, CommitVerdict.DONE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, CommitVerdict.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, CommitVerdict.RETRY),
        (ErrorCode.NOT_COORDINATOR, CommitVerdict.RETRY_ELSEWHERE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, CommitVerdict.RETRY_ELSEWHERE),
        (ErrorCode.REQUEST_TIMED_OUT, CommitVerdict.RETRY_ELSEWHERE),
        (ErrorCode.STALE_MEMBER_EPOCH, CommitVerdict.RETRY_IN_NEXT_EPOCH),
        (ErrorCode.REBALANCE_IN_PROGRESS, CommitVerdict.FAILED),
        (ErrorCode.ILLEGAL_GENERATION, CommitVerdict.FAILED),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitVerdict.FAILED),
        (ErrorCode.FENCED_INSTANCE_ID, CommitVerdict.FAILED),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, CommitVerdict.FAILED),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, CommitVerdict.FAILED),
    ],
)
def test_answers_mean_what_they_mean_to_java(code: ErrorCode, verdict: CommitVerdict) -> None:
    assert judge_commit(code) is verdict


def test_commit_says_who_where_and_since_which_leader() -> None:
    request = commit_request("g", Identity("me", 3, "one"), {T0: Committed(5, 2, "note"), T1: Committed(7)})
    assert (request.member_id, request.generation_id_or_member_epoch, request.group_instance_id) == ("me", 3, "one")
    rows = request.topics[0].partitions
    assert [(r.partition_index, r.committed_offset, r.committed_leader_epoch, r.committed_metadata) for r in rows] == [
        (0, 5, 2, "note"),
        (1, 7, -1, ""),
    ]


def test_nobody_in_particular_is_no_instance_either() -> None:
    assert commit_request("g", Identity(instance_id="one"), {T0: Committed(5)}).group_instance_id is None


def test_fetch_names_the_group_where_each_version_has_it() -> None:
    old = fetch_request("g", Identity("me", 3), [T0], version=7)
    assert (old.group_id, old.groups, old.require_stable) == ("g", (), True)
    assert not fetch_request("g", Identity(), [T0], version=6).require_stable
    new = fetch_request("g", Identity("me", 3), [T0], version=9)
    assert (new.group_id, new.groups[0].member_id, new.groups[0].member_epoch) == ("", "me", 3)
    assert new.require_stable
    assert fetch_request("g", Identity(), [T0], version=9).groups[0].member_id is None


def test_fetch_tells_what_was_committed_what_was_not_and_what_nobody_knows_yet() -> None:
    def row(index: int, offset: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=offset, committed_leader_epoch=4, metadata="", error_code=code
        )

    rows = (row(0, 5), row(1, -1), row(2, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT))
    topic = OffsetFetchResponseTopics(name="t", partitions=rows)
    response = OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=(topic,)),))
    assert read_fetch(response) == {
        T0: Committed(5, 4),
        T1: None,
        TopicPartition("t", 2): ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
    assert read_fetch(OffsetFetchResponse(topics=(topic,))) == read_fetch(response)


def test_error_of_the_group_is_an_error_of_all() -> None:
    group = OffsetFetchResponseGroup(group_id="g", topics=(), error_code=ErrorCode.NOT_COORDINATOR)
    assert read_fetch(OffsetFetchResponse(groups=(group,))) is ErrorCode.NOT_COORDINATOR


def test_positions_are_committed_every_interval_and_only_what_is_new() -> None:
    auto = AutoCommit(is_enabled=True, interval_ms=5_000)
    assert not auto.is_due(1_000)
    assert not auto.is_due(5_999)
    assert auto.is_due(6_000)
    auto.on_begun(6_000)
    assert (auto.is_due(6_000), auto.due_ms) == (False, 11_000)
    auto.on_known({T0: Committed(5)})
    assert auto.news({T0: Committed(5), T1: Committed(1)}) == {T1: Committed(1)}
    auto.forget([T0])
    assert auto.news({T0: Committed(5)}) == {T0: Committed(5)}


def test_nothing_is_due_where_the_program_commits_itself() -> None:
    auto = AutoCommit(is_enabled=False, interval_ms=0)
    assert (auto.is_due(1e9), auto.due_ms) == (False, None)


def test_what_was_processed_is_committed_up_to_the_last_record_of_each_partition() -> None:
    records = [
        ConsumedRecord(partition, offset, 0, TimestampType.CREATE_TIME, None, b"", (), leader_epoch)
        for partition, offset, leader_epoch in ((T0, 3, 1), (T1, 9, 1), (T0, 7, 2))
    ]
    assert offsets_after(records) == {T0: Committed(8, 2), T1: Committed(10, 1)}
