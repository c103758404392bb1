"""A replica as its leader: what it accepts, what counts as committed, what readers get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.config import LogConfig
from tidelog.model import Acks, ApiError, ErrorCode, IsolationLevel, TopicPartition
from tidelog.partition import (
    FlushWanted,
    HighWatermarkAdvanced,
    Leadership,
    LeadershipChanged,
    LogEndAdvanced,
    Partition,
)
from tidelog.records import Codec, MarkerType, RecordBatchBuilder, build_marker, headers
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import Opening, Origin, PartitionLog

NOW = 1_700_000_000_000
LEADING = Leadership(leader=1, leader_epoch=0, partition_epoch=0, isr=(1,), assignment=(1,))


def partition(config: LogConfig | None = None, *, high_watermark: int = 0, leads: bool = True) -> Partition:
    log = PartitionLog.open(
        SimulatedDisk(), "/t-0", TopicPartition("t", 0), config or LogConfig(), now_ms=NOW, opening=Opening()
    )
    made = Partition(1, log, high_watermark=high_watermark)
    if leads:
        made.become_leader(LEADING)
    return made


def batch(*values: bytes, codec: Codec = Codec.NONE, producer_id: int = -1, sequence: int = -1) -> bytearray:
    builder = RecordBatchBuilder(
        codec=codec, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1, base_sequence=sequence
    )
    for value in values:
        builder.append(timestamp_ms=NOW, key=b"k", value=value)
    return builder.build()


def append(to: Partition, *values: bytes, acks: Acks = Acks.ALL, version: int = 9) -> int:
    appended, _ = to.append_as_leader(batch(*values), acks=acks, produce_version=version, now_ms=NOW)
    return appended.base_offset


def refusal(of: Partition, sent: bytearray, *, version: int = 9) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        of.append_as_leader(sent, acks=Acks.ALL, produce_version=version, now_ms=NOW)
    return refused.value.code


def test_a_replica_without_a_role_serves_nobody() -> None:
    idle = partition(leads=False)
    assert refusal(idle, batch(b"v")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError):
        idle.read(0, max_bytes=100, isolation=IsolationLevel.READ_UNCOMMITTED)


def test_a_leader_alone_commits_what_it_appends() -> None:
    leader = partition()
    _, events = leader.append_as_leader(batch(b"a", b"b"), acks=Acks.ALL, produce_version=9, now_ms=NOW)
    assert [event for event in events if not isinstance(event, FlushWanted)] == [
        LogEndAdvanced(2),
        HighWatermarkAdvanced(2),
    ]
    assert leader.is_settled(2, Acks.ALL)


def test_with_flush_messages_nothing_is_committed_before_the_fsync_returned() -> None:
    leader = partition(LogConfig(flush_messages=1))
    _, events = leader.append_as_leader(batch(b"a"), acks=Acks.ALL, produce_version=9, now_ms=NOW)
    assert FlushWanted() in events
    assert (leader.high_watermark, leader.is_settled(1, Acks.ALL), leader.is_settled(1, Acks.LEADER)) == (
        0,
        False,
        False,
    )
    flush = leader.log.start_flush()
    assert flush is not None
    append(leader, b"b")
    flush.perform()
    assert HighWatermarkAdvanced(1) in leader.on_flushed(flush)
    assert (leader.high_watermark, leader.log.log_end_offset) == (1, 2)


def test_a_higher_leader_epoch_is_announced_and_an_older_partition_epoch_ignored() -> None:
    leader = partition()
    append(leader, b"a")
    newer = replace(LEADING, leader_epoch=3, partition_epoch=2)
    assert LeadershipChanged(3, is_leader=True) in leader.become_leader(newer)
    assert leader.become_leader(replace(LEADING, leader_epoch=1, partition_epoch=1)) == []
    assert (leader.leader_epoch, leader.log.latest_leader_epoch) == (3, 3)
    append(leader, b"b")
    read = leader.read(0, max_bytes=1000, isolation=IsolationLevel.READ_UNCOMMITTED)
    assert [header.leader_epoch for _, header in headers(read.records)] == [0, 3]


@pytest.mark.parametrize(("epoch", "code"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_reader_of_another_epoch_is_fenced(epoch: int, code: ErrorCode) -> None:
    leader = partition()
    leader.become_leader(replace(LEADING, leader_epoch=5, partition_epoch=1))
    for welcome in (-1, 5):
        leader.check_leader_epoch(welcome)
    with pytest.raises(ApiError) as fenced:
        leader.read(0, max_bytes=10, isolation=IsolationLevel.READ_UNCOMMITTED, current_leader_epoch=epoch)
    assert fenced.value.code is code


def test_the_end_is_unknown_until_the_watermark_reaches_what_the_election_found() -> None:
    config = LogConfig(flush_messages=1)
    leader = partition(config)
    append(leader, b"a")
    leader.become_leader(replace(LEADING, leader_epoch=1, partition_epoch=1))
    assert not leader.is_end_known
    flush = leader.log.start_flush()
    assert flush is not None
    flush.perform()
    leader.on_flushed(flush)
    assert leader.is_end_known


def test_a_replica_that_stepped_down_sends_everybody_away() -> None:
    leader = partition()
    leader.step_down()
    with pytest.raises(ApiError) as over:
        leader.check_reign(1)
    assert over.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_needs_enough_replicas_in_sync_and_acks_1_does_not() -> None:
    leader = partition(LogConfig(min_insync_replicas=2))
    leader.become_leader(replace(LEADING, partition_epoch=1, assignment=(1, 2, 3)))
    assert refusal(leader, batch(b"v")) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(leader, b"v", acks=Acks.LEADER) == 0


def test_min_insync_replicas_never_asks_for_more_than_there_are_replicas() -> None:
    assert append(partition(LogConfig(min_insync_replicas=2)), b"v") == 0


def test_zstd_needs_produce_version_7() -> None:
    leader = partition()
    assert refusal(leader, batch(b"v", codec=Codec.ZSTD), version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    leader.append_as_leader(batch(b"v", codec=Codec.ZSTD), acks=Acks.ALL, produce_version=7, now_ms=NOW)
    assert leader.high_watermark == 1


def test_a_retry_gets_the_first_offset_and_writes_nothing() -> None:
    leader = partition()
    append(leader, b"other")
    for _ in range(2):
        sent = batch(b"v", producer_id=9, sequence=0)
        appended, _ = leader.append_as_leader(sent, acks=Acks.ALL, produce_version=9, now_ms=NOW)
        assert appended.base_offset == 1
    assert leader.log.log_end_offset == 2


@pytest.mark.parametrize(("checkpoint", "high_watermark"), [(0, 0), (1, 1), (99, 2)])
def test_a_checkpointed_high_watermark_is_kept_within_the_log(checkpoint: int, high_watermark: int) -> None:
    before = partition()
    append(before, b"a", b"b")
    assert Partition(1, before.log, high_watermark=checkpoint).high_watermark == high_watermark


def test_read_committed_stops_at_an_open_transaction_and_names_aborted_ones() -> None:
    leader = partition()
    append(leader, b"plain")
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(timestamp_ms=NOW, key=None, value=b"in doubt")
    leader.log.append_as_leader(builder.build(), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    append(leader, b"behind")
    assert (leader.last_stable_offset, leader.high_watermark) == (1, 3)
    committed = leader.read(0, max_bytes=10_000, isolation=IsolationLevel.READ_COMMITTED)
    assert [header.base_offset for _, header in headers(committed.records)] == [0]
    marker = build_marker(MarkerType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW)
    leader.log.append_as_leader(marker, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    append(leader, b"last")
    read = leader.read(0, max_bytes=10_000, isolation=IsolationLevel.READ_COMMITTED)
    assert leader.last_stable_offset == 5
    assert [(txn.producer_id, txn.first_offset) for txn in read.aborted_transactions or ()] == [(7, 1)]
    assert leader.read(0, max_bytes=10, isolation=IsolationLevel.READ_UNCOMMITTED).aborted_transactions is None


def test_an_offline_replica_answers_everybody_with_a_storage_error() -> None:
    leader = partition()
    leader.go_offline()
    assert refusal(leader, batch(b"v")) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError) as failed:
        leader.check_reign(1)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
