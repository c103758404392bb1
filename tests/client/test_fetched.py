"""Fetched bytes read batch by batch."""

from __future__ import annotations

import crc32c
import pytest

from tidelog.client.aborted import AbortedTransaction
from tidelog.client.errors import CorruptRecords
from tidelog.client.fetched import FetchedRecords, ReadingRules
from tidelog.model import IsolationLevel, TopicPartition
from tidelog.records.batch import stamp
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.compression import Codec
from tidelog.records.control import MarkerType, build_marker

T0 = TopicPartition("t", 0)


def batch(base_offset: int, count: int, *, producer_id: int = -1, codec: Codec = Codec.NONE) -> bytes:
    builder = RecordBatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    for index in range(count):
        builder.append(timestamp_ms=index, key=None, value=b"%d" % (base_offset + index))
    return bytes(builder.build(base_offset=base_offset, leader_epoch=3))


def marker(offset: int, producer_id: int, kind: MarkerType) -> bytes:
    data = build_marker(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    stamp(data, 0, base_offset=offset, leader_epoch=3)
    return bytes(data)


def fetched(
    data: bytes,
    *,
    at: int = 0,
    aborted: tuple[AbortedTransaction, ...] = (),
    level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    checks_crcs: bool = True,
) -> FetchedRecords:
    rules = ReadingRules(isolation_level=level, checks_crcs=checks_crcs, batch_bytes_max=10_000)
    return FetchedRecords(T0, data, fetch_offset=at, aborted=aborted, rules=rules)


def offsets(records: FetchedRecords, count_max: int = 100) -> list[int]:
    return [record.offset for record in records.take(count_max)]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_in_order_with_their_offsets_whatever_the_codec(codec: Codec) -> None:
    data = fetched(batch(0, 3, codec=codec) + batch(3, 2, codec=codec))
    records = data.take(100)
    assert [(record.offset, record.value) for record in records] == [(n, b"%d" % n) for n in range(5)]
    assert records[0].leader_epoch == 3
    assert (data.next_offset, data.is_exhausted) == (5, True)


def test_records_before_the_position_are_skipped() -> None:
    assert offsets(fetched(batch(0, 5), at=3)) == [3, 4]


def test_taking_piecemeal_keeps_the_position_exact() -> None:
    data = fetched(batch(0, 3))
    assert (offsets(data, 2), data.next_offset, data.end_offset) == ([0, 1], 2, 3)
    assert (offsets(data, 2), data.next_offset, data.is_exhausted) == ([2], 3, True)


def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    data = fetched(batch(0, 2) + batch(2, 2)[:-5])
    assert offsets(data) == [0, 1]
    assert data.end_offset == 2


def test_control_batches_are_not_handed_out_but_passed() -> None:
    data = fetched(batch(0, 1, producer_id=7) + marker(1, 7, MarkerType.COMMIT))
    assert offsets(data) == [0]
    assert (data.next_offset, data.end_offset) == (2, 2)


def test_aborted_records_are_not_handed_out_under_read_committed() -> None:
    data = batch(0, 2, producer_id=7) + batch(2, 1) + marker(3, 7, MarkerType.ABORT) + batch(4, 1, producer_id=7)
    aborted = (AbortedTransaction(7, 0),)
    assert offsets(fetched(data, aborted=aborted)) == [2, 4]
    assert offsets(fetched(data, aborted=aborted, level=IsolationLevel.READ_UNCOMMITTED)) == [0, 1, 2, 4]


def test_an_answer_of_nothing_but_aborted_data_moves_the_position() -> None:
    data = fetched(batch(0, 2, producer_id=7), aborted=(AbortedTransaction(7, 0),))
    assert offsets(data) == []
    assert (data.next_offset, data.is_exhausted) == (2, True)


def test_a_broken_checksum_names_partition_and_offset_after_the_good_records() -> None:
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    data = fetched(batch(0, 2) + bytes(damaged))
    assert offsets(data) == [0, 1]
    with pytest.raises(CorruptRecords):
        data.take(10)
    with pytest.raises(CorruptRecords, match=r"t-0 at offset 2: the checksum") as caught:
        data.take(10)
    assert (caught.value.offset, caught.value.next_offset) == (2, 4)
    assert not data.is_exhausted


def test_checksums_are_not_looked_at_where_the_user_says_so() -> None:
    damaged = bytearray(batch(0, 2))
    damaged[17] ^= 1
    assert offsets(fetched(bytes(damaged), checks_crcs=False)) == [0, 1]


def test_a_batch_that_expands_too_far_is_corrupt() -> None:
    builder = RecordBatchBuilder(codec=Codec.GZIP)
    builder.append(timestamp_ms=0, key=None, value=bytes(100_000))
    with pytest.raises(CorruptRecords):
        fetched(bytes(builder.build())).take(1)


def test_bytes_of_another_format_are_corrupt() -> None:
    damaged = bytearray(batch(0, 1))
    damaged[16] = 1
    with pytest.raises(CorruptRecords, match="offset 0"):
        fetched(bytes(damaged)).take(1)


def test_less_than_one_batch_is_said_rather_than_fetched_for_ever() -> None:
    with pytest.raises(CorruptRecords, match="no whole batch"):
        fetched(batch(0, 1)[:30]).take(1)


def test_an_empty_answer_is_exhausted() -> None:
    data = fetched(b"", at=9)
    assert (data.is_exhausted, data.next_offset, data.end_offset) == (True, 9, 9)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("claimed", [1, 99])
def test_a_batch_whose_records_are_not_those_of_its_header_is_corrupt_and_can_be_passed(
    codec: Codec, claimed: int
) -> None:
    lying = bytearray(batch(5, 3, codec=codec))
    lying[23:27] = (claimed - 1).to_bytes(4, "big")
    lying[57:61] = claimed.to_bytes(4, "big")
    lying[17:21] = crc32c.crc32c(bytes(lying[21:])).to_bytes(4, "big")
    records = fetched(bytes(lying), at=5)
    with pytest.raises(CorruptRecords) as found:
        records.take(10)
    assert (found.value.topic_partition, found.value.offset, found.value.next_offset) == (T0, 5, 5 + claimed)
