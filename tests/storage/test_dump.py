"""Describing the files of a log, sound and damaged."""

from __future__ import annotations

import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.compacting import DIRECTORY, Bench, batch, bench_of, marker
from tidelog.model import TopicPartition
from tidelog.records import Codec, MarkerType, stamp, stamp_append_time
from tidelog.storage.checkpoints import EpochStart, encode_epochs, encode_offsets
from tidelog.storage.dump import BatchRow, Damage, Row, dump_file
from tidelog.storage.names import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, file_name
from tidelog.storage.producer_snapshot import SnapshotEntry, encode_snapshot


def two_batches() -> bytes:
    one = batch((b"a", b"1"), (b"b", None), producer=(7, 2, 2_147_483_647), timestamp_ms=500)
    two = marker(MarkerType.COMMIT, 7, epoch=2, timestamp_ms=900)
    stamp(one, 0, base_offset=40, leader_epoch=3)
    stamp(two, 0, base_offset=42, leader_epoch=3)
    return bytes(one + two)


def indexed_bench() -> Bench:
    return bench_of([batch((b"%d" % number, b"v" * 50), timestamp_ms=100 + number) for number in range(9)])


def dumped(bench: Bench, kind: str, content: bytes | None = None) -> list[Row]:
    name = file_name(0, kind)
    data = bench.disk.read(f"{DIRECTORY}/{name}") if content is None else content
    return list(dump_file(name, data, log=bench.disk.read(f"{DIRECTORY}/{file_name(0, LOG)}")))


def problems(rows: list[Row]) -> list[str]:
    return [row.problem for row in rows if row.problem is not None]


def test_batch_is_described_in_the_words_of_kafkas_tool() -> None:
    data = two_batches()
    row, _ = dump_file(file_name(40, LOG), data)
    assert isinstance(row, BatchRow)
    facts = row.facts()
    crc = facts.pop("crc")
    assert crc == int.from_bytes(data[17:21], "big")
    assert " ".join(f"{name}: {value}" for name, value in facts.items()) == (
        "baseOffset: 40 lastOffset: 41 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: 7 producerEpoch: 2 "
        "partitionLeaderEpoch: 3 isTransactional: False isControl: False deleteHorizonMs: None position: 0 "
        f"CreateTime: 501 size: {row.header.size} magic: 2 compresscodec: none isvalid: True"
    )
    assert row.records is None


def test_records_are_described_when_wanted() -> None:
    data, control = dump_file(file_name(40, LOG), two_batches(), with_records=True)
    assert isinstance(data, BatchRow)
    assert isinstance(control, BatchRow)
    assert data.records is not None
    assert control.records is not None
    assert [row.facts() for row in data.records] == [
        {"offset": 40, "CreateTime": 500, "keySize": 1, "valueSize": 1, "sequence": 2_147_483_647, "headerKeys": "[]"},
        {"offset": 41, "CreateTime": 501, "keySize": 1, "valueSize": -1, "sequence": 0, "headerKeys": "[]"},
    ]
    assert [row.record.key for row in data.records] == [b"a", b"b"]
    assert control.records[0].facts() | {"endTxnMarker": "COMMIT", "coordinatorEpoch": 3} == control.records[0].facts()


@pytest.mark.parametrize("codec", Codec)
def test_codec_and_append_time_are_named(codec: Codec) -> None:
    data = batch((b"a", b"1"), codec=codec)
    stamp_append_time(data, 0, append_time_ms=77)
    (row,) = dump_file(file_name(0, LOG), data)
    assert row.facts()["compresscodec"] == codec.name.lower()
    assert row.facts()["LogAppendTime"] == 77


def test_delete_horizon_is_shown() -> None:
    bench = bench_of([batch((b"a", None))], [batch((b"b", b"1"))])
    bench.compact(now_ms=5_000)
    row = dumped(bench, LOG)[0]
    assert row.facts()["deleteHorizonMs"] == 6_000


def test_unknown_codec_is_shown_and_its_records_are_a_problem() -> None:
    data = bytearray(two_batches())
    data[22] = 6
    row = next(dump_file(file_name(0, LOG), data, with_records=True))
    assert row.facts()["compresscodec"] == "unknown (6)"
    assert row.problem is not None


def test_batch_with_wrong_checksum_is_shown_as_invalid_and_the_next_as_valid() -> None:
    data = bytearray(two_batches())
    data[70] ^= 1
    first, second = dump_file(file_name(0, LOG), data)
    assert (first.facts()["isvalid"], first.problem) == (False, "the checksum does not hold")
    assert (second.facts()["isvalid"], second.problem) == (True, None)


def test_bytes_that_are_no_batch_are_one_row_and_the_next_batch_is_found() -> None:
    data = two_batches()
    rows = list(dump_file(file_name(0, LOG), bytes(100) + data + b"\x02" * 30))
    assert [type(row) for row in rows] == [Damage, BatchRow, BatchRow, Damage]
    assert rows[0].facts() == {"position": 0, "size": 100}
    assert rows[3].facts() == {"position": 100 + len(data), "size": 30}


def test_batch_whose_length_lies_does_not_hide_the_next() -> None:
    one = len(batch((b"a", b"1"), (b"b", None), producer=(7, 2, 0)))
    data = bytearray(two_batches())
    data[8:12] = (10_000).to_bytes(4, "big")
    rows = list(dump_file(file_name(0, LOG), data))
    assert [type(row) for row in rows] == [Damage, BatchRow]
    assert rows[0].facts() == {"position": 0, "size": one}


def test_cut_batch_is_damage() -> None:
    data = two_batches()
    rows = list(dump_file(file_name(0, LOG), data[:-1]))
    assert [type(row) for row in rows] == [BatchRow, Damage]


def test_sound_indexes_have_no_problems() -> None:
    bench = indexed_bench()
    offsets, times = dumped(bench, OFFSET_INDEX), dumped(bench, TIME_INDEX)
    assert len(offsets) > 2
    assert len(times) > 2
    assert problems(offsets + times) == []
    assert list(offsets[0].facts()) == ["offset", "position"]
    assert list(times[0].facts()) == ["timestamp", "offset"]


def test_preallocated_zeros_are_no_entries() -> None:
    bench = indexed_bench()
    data = bench.disk.read(f"{DIRECTORY}/{file_name(0, OFFSET_INDEX)}")
    assert dumped(bench, OFFSET_INDEX, data + bytes(800)) == dumped(bench, OFFSET_INDEX)
    assert dumped(bench, TIME_INDEX, bytes(1200)) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ((3, 10), "no batch there"),
        ((3, 1_000_000), "the segment has"),
        ((100, 0), "no batch of the segment ends"),
        ((0, 357), "the batch there ends"),
        ((-1, 0), "does not grow"),
    ],
)
def test_offset_entry_that_leads_astray_is_a_problem(entry: tuple[int, int], problem: str) -> None:
    (found,) = problems(dumped(indexed_bench(), OFFSET_INDEX, struct.pack(">ii", *entry)))
    assert problem in found


@pytest.mark.parametrize(
    ("entry", "problem"),
    [((103, 100), "no batch"), ((104, 3), "largest timestamp up to this offset is 103"), ((-1, 3), "does not grow")],
)
def test_time_entry_that_lies_is_a_problem(entry: tuple[int, int], problem: str) -> None:
    (found,) = problems(dumped(indexed_bench(), TIME_INDEX, struct.pack(">qi", *entry)))
    assert problem in found


def test_half_an_entry_is_damage() -> None:
    bench = indexed_bench()
    for kind in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
        rows = dumped(bench, kind, b"\x01\x02\x03")
        assert [row.facts() for row in rows] == [{"position": 0, "size": 3}]


def test_aborted_transactions_are_listed() -> None:
    bench = bench_of(
        [batch((b"a", b"1"), producer=(7, 0, 0), is_transactional=True), marker(MarkerType.ABORT, 7)],
    )
    (row,) = dumped(bench, TRANSACTION_INDEX)
    assert row.facts() == {"version": 0, "producerId": 7, "firstOffset": 0, "lastOffset": 1, "lastStableOffset": 2}


def test_aborted_transactions_that_cannot_be_are_problems() -> None:
    layout = struct.Struct(">hqqqq")
    data = layout.pack(1, 7, 0, 5, 6) + layout.pack(0, 7, 0, 5, 6) + layout.pack(0, 7, 9, 8, 6)
    assert len(problems(dumped(indexed_bench(), TRANSACTION_INDEX, data))) == 3


def test_producers_are_listed() -> None:
    entry = SnapshotEntry(7, 2, 11, 40, 1, 500, -1, 39)
    (row,) = dump_file(file_name(41, SNAPSHOT), encode_snapshot([entry]))
    assert row.facts() == {
        "producerId": 7,
        "producerEpoch": 2,
        "coordinatorEpoch": -1,
        "currentTxnFirstOffset": 39,
        "lastTimestamp": 500,
        "firstSequence": 10,
        "lastSequence": 11,
        "lastOffset": 40,
        "offsetDelta": 1,
        "timestamp": 500,
    }


def test_damaged_snapshot_is_one_row() -> None:
    (row,) = dump_file(file_name(41, SNAPSHOT), encode_snapshot([])[:-1])
    assert isinstance(row, Damage)


def test_checkpoints_are_listed() -> None:
    offsets = encode_offsets({TopicPartition("b", 1): 5, TopicPartition("a", 0): 7})
    assert [row.facts() for row in dump_file("recovery-point-offset-checkpoint", offsets)] == [
        {"topic": "a", "partition": 0, "offset": 7},
        {"topic": "b", "partition": 1, "offset": 5},
    ]
    epochs = encode_epochs([EpochStart(0, 0), EpochStart(3, 40)])
    assert [row.facts() for row in dump_file("leader-epoch-checkpoint", epochs)] == [
        {"leaderEpoch": 0, "startOffset": 0},
        {"leaderEpoch": 3, "startOffset": 40},
    ]


def test_damaged_checkpoint_is_one_row() -> None:
    for name in ("leader-epoch-checkpoint", "replication-offset-checkpoint"):
        (row,) = dump_file(name, b"0\n7\n")
        assert isinstance(row, Damage)


NAMES = [file_name(0, kind) for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*NAMES, "leader-epoch-checkpoint", "x"]),
    st.binary(max_size=300),
    st.none() | st.binary(max_size=200),
)
def test_no_bytes_make_the_description_raise(name: str, content: bytes, log: bytes | None) -> None:
    list(dump_file(name, content, log=log, with_records=True))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_segment_is_described_to_its_end(data: st.DataObject) -> None:
    content = bytearray(two_batches() * 3)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    rows = list(dump_file(file_name(0, LOG), content, with_records=True))
    sizes = [
        row.header.size if isinstance(row, BatchRow) else row.size for row in rows if isinstance(row, BatchRow | Damage)
    ]
    assert sum(sizes) == len(content)


@pytest.mark.parametrize("claimed", [1, 99])
def test_batch_whose_records_are_not_those_of_its_header_has_a_problem(claimed: int) -> None:
    lying = batch((b"a", b"1"), (b"b", None), timestamp_ms=500)
    struct.pack_into(">i", lying, 23, claimed - 1)
    struct.pack_into(">i", lying, 57, claimed)
    struct.pack_into(">I", lying, 17, crc32c.crc32c(bytes(lying[21:])))
    (row,) = dump_file(file_name(0, LOG), bytes(lying), with_records=True)
    assert isinstance(row, BatchRow)
    assert row.is_valid
    assert problems([row])
    assert row.records is None
