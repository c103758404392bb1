"""Bytes of segments become batches, or a reason why they are none; every byte is accounted for."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.audit.planted import batch, emptied, flipped, marker, run
from tidelog.pipeline.segments import kernel, walking
from tidelog.pipeline.segments.directories import SegmentFile
from tidelog.pipeline.segments.planning import SegmentRange
from tidelog.pipeline.segments.walking import Batches, Found, NoBatch, walk_range
from tidelog.records.batch import read_header
from tidelog.records.compression import Codec

SIZE = len(run(1)[0])

pytestmark = pytest.mark.slow  # what is compiled takes a while the first time


def segment_range(path: Path, *, start: int = 0, end: int | None = None) -> SegmentRange:
    size = path.stat().st_size if path.exists() else 100
    return SegmentRange(
        replica="1",
        broker=1,
        directory=str(path.parent.parent),
        topic="orders",
        partition=0,
        segment=SegmentFile(base_offset=0, path=str(path), size=size),
        start=start,
        end=size if end is None else end,
    )


def walked(path: Path, content: bytes, entries: list[tuple[int, int]] | None = None) -> list[Found]:
    """What is found in a segment of this content, beside an index of these (relative offset, position)."""
    path.write_bytes(content)
    if entries is not None:
        path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    found = list(walk_range(segment_range(path)))
    assert sum(_bytes(each) for each in found) == len(content)
    return found


def _bytes(found: Found) -> int:
    return found.size if isinstance(found, NoBatch) else int(found.rows[:, kernel.SIZE].sum())


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def test_every_header_is_read_as_the_broker_reads_it(segment: Path) -> None:
    batches = [
        batch(0, epoch=3, producer=(7, 2, 40), is_transactional=True, codec=Codec.ZSTD),
        marker(5, (7, 2), commits=False, epoch=4),
        batch(6, count=1),
    ]
    (found,) = walked(segment, b"".join(batches))
    assert isinstance(found, Batches)
    assert found.crc_ok.all()
    for row, content in zip(found.rows, batches, strict=True):
        header = read_header(content)
        assert row[kernel.SIZE] == len(content)
        assert row[kernel.BASE_OFFSET] == header.base_offset
        assert row[kernel.LAST_OFFSET] == header.last_offset
        assert row[kernel.LEADER_EPOCH] == header.leader_epoch
        assert row[kernel.CRC] == header.crc
        assert row[kernel.ATTRIBUTES] == header.attributes
        assert row[kernel.PRODUCER_ID] == header.producer_id
        assert row[kernel.PRODUCER_EPOCH] == header.producer_epoch
        assert row[kernel.BASE_SEQUENCE] == header.base_sequence
        assert row[kernel.RECORD_COUNT] == header.record_count
        assert (row[kernel.BASE_TIMESTAMP], row[kernel.MAX_TIMESTAMP]) == (header.base_timestamp, header.max_timestamp)
    assert found.rows[:, kernel.CONTROL_TYPE].tolist() == [kernel.NO_CONTROL, 0, kernel.NO_CONTROL]


def test_a_marker_that_compaction_has_emptied_is_still_one(segment: Path) -> None:
    (found,) = walked(segment, emptied(marker(0, (1, 0))))
    assert isinstance(found, Batches)
    assert found.rows[0, kernel.CONTROL_TYPE] == kernel.EMPTY_CONTROL


@pytest.mark.parametrize("position", range(0, SIZE, 7))
def test_any_changed_byte_changes_the_digest_or_is_no_batch(segment: Path, position: int) -> None:
    (sound,) = walked(segment, run(1)[0])
    found = walked(segment, flipped(run(1)[0], position))[0]
    assert isinstance(sound, Batches)
    if isinstance(found, Batches):
        assert found.rows[0, kernel.DIGEST] != sound.rows[0, kernel.DIGEST]
        assert found.crc_ok[0] == (position < 17)  # what a checksum does not cover, and itself
    else:
        assert position in range(8, 12) or position == 16 or position in range(23, 27)


def test_a_checksum_field_that_stays_while_bytes_change_does_not_hold(segment: Path) -> None:
    (found,) = walked(segment, flipped(b"".join(run(3)), SIZE + 80))
    assert isinstance(found, Batches)
    assert found.crc_ok.tolist() == [True, False, True]
    assert len(set(found.rows[:, kernel.CRC].tolist())) == 1


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x01" * 30, "cut short: 30 bytes are no whole batch header"),
        (run(1)[0][:-9], f"cut short: a batch of {SIZE} bytes where {SIZE - 9} are left"),
        (b"\x07" * 80, "no batch: record format 7 where only 2 can be"),
        (run(1)[0][:16] + b"\x01" + bytes(60), "no batch: record format 1 where only 2 can be"),
        (struct.pack(">qiib", 0, 12, 0, 2) + bytes(60), "no batch: its length is less than a header"),
        (b"\x80" + run(1)[0][1:], "no batch: offset -9223372036854775808 and 4 more cannot be"),
        (bytes(5000), walking.ZEROS),
    ],
    ids=["half-header", "half-batch", "garbage", "old-format", "short-length", "offset", "zeros"],
)
def test_a_tail_that_is_no_batch_is_told_with_its_reason(segment: Path, tail: bytes, reason: str) -> None:
    first, second = walked(segment, b"".join(run(2)) + tail)
    assert isinstance(first, Batches)
    assert isinstance(second, NoBatch)
    assert (second.position, second.size) == (2 * SIZE, len(tail))
    assert second.reason == reason


def test_after_bytes_that_are_no_batch_the_index_tells_where_the_next_one_is(segment: Path) -> None:
    content = b"".join(run(2)) + b"\x09" * SIZE + b"".join(run(3, first=15))
    entries = [(4, 7), (9, SIZE), (14, 2 * SIZE), (17, 3 * SIZE + 5), (24, 4 * SIZE), (0, 0)]
    before, damage, after = walked(segment, content, entries)
    assert isinstance(damage, NoBatch)
    assert (damage.position, damage.size) == (2 * SIZE, 2 * SIZE)  # the entry in the middle of a batch is not believed
    assert isinstance(before, Batches)
    assert isinstance(after, Batches)
    assert after.rows[:, kernel.BASE_OFFSET].tolist() == [20, 25]


def test_a_batch_larger_than_a_window_is_read_whole(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join([*run(2), batch(10, text="x" * 500), *run(1, first=15)])
    (whole,) = walked(segment, content)
    monkeypatch.setattr(walking, "WINDOW_BYTES", 2 * SIZE + 20)
    found = walked(segment, content)
    rows = np.concatenate([each.rows for each in found if isinstance(each, Batches)])
    assert isinstance(whole, Batches)
    assert np.array_equal(rows, whole.rows)
    assert len(found) == 3


def test_a_file_that_is_gone_is_told(segment: Path) -> None:
    assert list(walk_range(segment_range(segment))) == [NoBatch(position=0, size=100, reason=walking.VANISHED)]


def test_a_file_that_has_become_shorter_is_told(segment: Path) -> None:
    segment.write_bytes(b"".join(run(4)))
    wanted = segment_range(segment)
    segment.write_bytes(b"".join(run(2)))
    found = list(walk_range(wanted))
    assert found[1:] == [NoBatch(position=2 * SIZE, size=2 * SIZE, reason=walking.SHORTER)]


def test_a_directory_in_place_of_a_file_is_told_and_nothing_fails(segment: Path) -> None:
    segment.mkdir()
    (found,) = walk_range(segment_range(segment, end=50))
    assert isinstance(found, NoBatch)
    assert found.reason == "cannot be read: Is a directory"
