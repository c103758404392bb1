"""Records of transactional ids: the golden bytes were put together by hand from Kafka's schemas, field by field."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordinator.transaction.transaction_room import P0, P1, P2
from tidelog.coordinator import CoordinatorRecord, MalformedRecord
from tidelog.coordinator.transaction.partition_lists import PartitionLists
from tidelog.coordinator.transaction.records import Remembered, read_record, state_record, tombstone
from tidelog.coordinator.transaction.states import (
    NO_TIMEOUT_MS,
    TransactionState,
    TransactionStatus,
    TransactionVersion,
)
from tidelog.model import TopicPartition

KEY = bytes.fromhex("0000 0002 7431".replace(" ", ""))  # version, length, "t1"

EMPTY = TransactionState(
    transactional_id="t1",
    producer_id=1_000,
    producer_epoch=5,
    timeout_ms=60_000,
    status=TransactionStatus.EMPTY,
    last_update_ms=0x18BCFE56800,
)
ONGOING = replace(
    EMPTY,
    status=TransactionStatus.ONGOING,
    partitions=(P0, P1, P2),
    start_ms=0x18BCFE567FF,
    last_update_ms=0x18BCFE56801,
)
ALL_TAGS = replace(
    ONGOING,
    previous_producer_id=999,
    next_producer_id=1_001,
    next_producer_epoch=7,
    client_version=TransactionVersion.TWO,
)

HEAD = "00000000000003e8 0005 0000ea60"  # producer id, epoch, timeout
CLASSIC_TOPICS = "00000002 0006 6f7264657273 00000002 00000000 00000001 0005 73746f636b 00000001 00000000"
COMPACT_TOPICS = "03 07 6f7264657273 03 00000000 00000001 00 06 73746f636b 02 00000000 00"
TIMES = "0000018bcfe56801 0000018bcfe567ff"  # last update, start

GOLDEN = [
    (EMPTY, TransactionVersion.ZERO, f"0000 {HEAD} 00 ffffffff 0000018bcfe56800 ffffffffffffffff"),
    (EMPTY, TransactionVersion.ONE, f"0001 {HEAD} 00 00 0000018bcfe56800 ffffffffffffffff 00"),
    (ONGOING, TransactionVersion.ZERO, f"0000 {HEAD} 01 {CLASSIC_TOPICS} {TIMES}"),
    (ONGOING, TransactionVersion.TWO, f"0001 {HEAD} 01 {COMPACT_TOPICS} {TIMES} 00"),
    (
        ALL_TAGS,
        TransactionVersion.TWO,
        f"0001 {HEAD} 01 {COMPACT_TOPICS} {TIMES} 04"
        " 00 08 00000000000003e7 01 08 00000000000003e9 02 02 0002 03 02 0007",
    ),
    (
        replace(ONGOING, status=TransactionStatus.COMPLETE_COMMIT, partitions=()),
        TransactionVersion.ZERO,
        f"0000 {HEAD} 04 00000000 {TIMES}",
    ),
    (
        replace(ONGOING, status=TransactionStatus.COMPLETE_ABORT, partitions=(), client_version=TransactionVersion.TWO),
        TransactionVersion.TWO,
        f"0001 {HEAD} 05 01 {TIMES} 01 02 02 0002",
    ),
]


@pytest.mark.parametrize(("state", "cluster", "golden"), GOLDEN)
def test_a_record_is_as_kafka_writes_it(state: TransactionState, cluster: TransactionVersion, golden: str) -> None:
    record = CoordinatorRecord(KEY, bytes.fromhex(golden.replace(" ", "")))
    assert state_record(state, cluster) == record
    assert read_record(record) == Remembered("t1", state)


def test_a_tombstone_has_no_value() -> None:
    assert tombstone("t1") == CoordinatorRecord(KEY, None)
    assert read_record(tombstone("t1")) == Remembered("t1", None)


@pytest.mark.parametrize(
    "state",
    [
        replace(ONGOING, client_version=TransactionVersion.TWO),
        replace(ONGOING, next_producer_id=1_001, next_producer_epoch=0),
    ],
)
def test_what_version_0_has_no_room_for_is_written_in_version_1(state: TransactionState) -> None:
    record = state_record(state, TransactionVersion.ZERO)
    assert (record.value or b"")[:2] == b"\0\1"
    assert read_record(record).state == state


def test_partitions_are_in_order_whatever_the_order_they_were_written_in() -> None:
    value = bytes.fromhex(
        f"0000 {HEAD} 01 00000002 0005 73746f636b 00000001 00000000"
        f" 0006 6f7264657273 00000003 00000001 00000000 00000001 {TIMES}".replace(" ", "")
    )
    assert read_record(CoordinatorRecord(KEY, value)).state == ONGOING


def test_tags_that_nobody_knows_yet_are_passed_over() -> None:
    value = bytes.fromhex(f"0001 {HEAD} 00 00 0000018bcfe56800 ffffffffffffffff 01 09 01 ff".replace(" ", ""))
    assert read_record(CoordinatorRecord(KEY, value)).state == EMPTY


def test_a_next_id_without_an_epoch_begins_with_the_first() -> None:
    """As Kafka writes it where epochs are used up."""
    state = replace(ONGOING, status=TransactionStatus.PREPARE_COMMIT, next_producer_id=1_001)
    assert state.owner == (1_001, 0)


@pytest.mark.parametrize("cluster", list(TransactionVersion))
@pytest.mark.parametrize("count", [130, 1_000, 10_000])
def test_the_record_that_ends_a_large_transaction_is_not_larger_than_those_before(
    count: int, cluster: TransactionVersion
) -> None:
    partitions = tuple(TopicPartition(f"{index // 3:0100}", index % 3) for index in range(count))
    ongoing = replace(ONGOING, partitions=partitions)
    ending = replace(
        ALL_TAGS,
        status=TransactionStatus.PREPARE_ABORT,
        partitions=partitions,
        next_producer_id=2**62,
        producer_epoch=9,
    )
    before, after = state_record(ongoing, cluster), state_record(ending, cluster)
    assert len(after.value or b"") <= len(before.value or b"")
    assert read_record(before).state == ongoing


@pytest.mark.parametrize("cluster", list(TransactionVersion))
@pytest.mark.parametrize("state", [EMPTY, ALL_TAGS])
def test_a_value_that_is_cut_short_is_malformed(state: TransactionState, cluster: TransactionVersion) -> None:
    record = state_record(state, cluster)
    value = record.value or b""
    for end in range(len(value)):
        with pytest.raises(MalformedRecord):
            read_record(CoordinatorRecord(KEY, value[:end]))


@pytest.mark.parametrize(
    "damaged",
    [
        f"0002 {HEAD} 00 00 0000018bcfe56800 ffffffffffffffff 00",  # a version that nobody writes
        f"ffff {HEAD} 00 00 0000018bcfe56800 ffffffffffffffff 00",
        f"0001 {HEAD} 06 01 {TIMES} 00",  # dead
        f"0001 {HEAD} 07 01 {TIMES} 00",  # only ever pending
        f"0001 {HEAD} 08 01 {TIMES} 00",  # a status that there is not
        f"0001 {HEAD} 01 01 {TIMES} 01 02 02 0003",  # a version of transactions that there is not
        f"0001 {HEAD} 01 01 {TIMES} 01 00 04 00000001",  # a producer id of four bytes
        f"0000 {HEAD} 01 7fffffff {TIMES}",  # more topics than bytes
        f"0000 {HEAD} 01 00000001 ffff 00000000 {TIMES}",  # a topic without a name
    ],
)
def test_damage_is_malformed(damaged: str) -> None:
    with pytest.raises(MalformedRecord):
        read_record(CoordinatorRecord(KEY, bytes.fromhex(damaged.replace(" ", ""))))


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\0\0\2t", b"\0\1\0\2t1", b"\0\0\xff\xff", b"\0\0\0\1\xff"])
def test_a_key_of_another_kind_is_malformed(key: bytes) -> None:
    with pytest.raises(MalformedRecord):
        read_record(CoordinatorRecord(key, None))


IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 32_767)
TIMES_MS = st.integers(-1, 2**62)
STATUSES = st.sampled_from([status for status in TransactionStatus if status < TransactionStatus.DEAD])
PARTITIONS = st.builds(TopicPartition, st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1))


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    status = data.draw(STATUSES)
    partitions = data.draw(st.sets(PARTITIONS, max_size=6)) if status else set()
    state = TransactionState(
        transactional_id=data.draw(st.text(min_size=1, max_size=40)),
        producer_id=data.draw(st.integers(0, 2**63 - 1)),
        producer_epoch=data.draw(EPOCHS),
        timeout_ms=data.draw(st.sampled_from([1, 60_000, NO_TIMEOUT_MS])),
        status=status,
        partitions=tuple(sorted(partitions)),
        start_ms=data.draw(TIMES_MS),
        last_update_ms=data.draw(TIMES_MS),
        previous_producer_id=data.draw(IDS),
        next_producer_id=data.draw(IDS),
        next_producer_epoch=data.draw(EPOCHS),
        client_version=data.draw(st.sampled_from(TransactionVersion)),
    )
    assert read_record(state_record(state, TransactionVersion.TWO)).state == state


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_what_is_remembered_of_lists_changes_no_byte_and_no_state(data: st.DataObject) -> None:
    """Ids take turns, lists grow, shrink and come back, in both formats; and some records were written by somebody else."""
    lists, states = PartitionLists(), {name: replace(EMPTY, transactional_id=name) for name in ("a", "b")}
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(sorted(states)))
        status = data.draw(STATUSES)
        is_same = status is not TransactionStatus.EMPTY and data.draw(st.booleans())
        drawn = data.draw(st.sets(PARTITIONS, max_size=4)) if status else set()
        partitions = states[name].partitions if is_same else tuple(sorted(drawn))
        states[name] = state = replace(states[name], status=status, partitions=partitions)
        cluster = data.draw(st.sampled_from(TransactionVersion))
        record = state_record(state, cluster)
        if data.draw(st.booleans()):
            assert state_record(state, cluster, lists) == record
        assert read_record(record, lists) == Remembered(name, state)
        assert len(lists) <= sum(bool(each.partitions) for each in states.values())


def test_lists_of_transactions_that_have_ended_are_forgotten() -> None:
    for forgetting in (replace(ONGOING, status=TransactionStatus.COMPLETE_COMMIT, partitions=()), EMPTY, None):
        lists = PartitionLists()
        read_record(state_record(ONGOING, TransactionVersion.TWO, lists), lists)
        assert len(lists) == 1
        record = tombstone("t1") if forgetting is None else state_record(forgetting, TransactionVersion.TWO, lists)
        read_record(record, lists)
        assert len(lists) == 0


def test_the_list_of_a_transaction_is_not_taken_apart_again_when_it_is_decided() -> None:
    lists = PartitionLists()
    ongoing = read_record(state_record(ONGOING, TransactionVersion.TWO, lists), lists).state
    assert ongoing is not None
    ending = state_record(replace(ongoing, status=TransactionStatus.PREPARE_COMMIT), TransactionVersion.TWO, lists)
    decided = read_record(ending, lists).state
    assert decided is not None
    assert decided.partitions is ongoing.partitions


@pytest.mark.slow
@settings(max_examples=300)
@given(st.binary(max_size=80), st.sampled_from([b"\0\0", b"\0\1"]))
def test_no_bytes_break_the_reader(noise: bytes, version: bytes) -> None:
    try:
        read_record(CoordinatorRecord(KEY, version + noise))
    except MalformedRecord:
        return
