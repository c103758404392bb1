"""Which task reads what: every byte once, cut only where a batch begins."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.pipeline.audit.planted import run
from tidelog.model import TopicPartition
from tidelog.pipeline.segments.directories import DataDirectory, PartitionFiles, SegmentFile
from tidelog.pipeline.segments.planning import SegmentRange, plan

BATCHES = run(400)
SIZE = len(BATCHES[0])


def planned(directory: Path, contents: list[bytes], *, task_bytes: int) -> list[tuple[SegmentRange, ...]]:
    segments = []
    for number, content in enumerate(contents):
        path = directory / f"{number:020d}.log"
        path.write_bytes(content)
        segments.append(SegmentFile(base_offset=number, path=str(path), size=len(content)))
    files = PartitionFiles(
        directory=DataDirectory(path=str(directory), replica="1", broker=1, cluster_id=None),
        topic_partition=TopicPartition("orders", 0),
        segments=tuple(segments),
    )
    return plan([files], core_count=2, task_bytes_max=task_bytes)


def index(directory: Path, positions: list[int]) -> None:
    entries = b"".join(struct.pack(">ii", position // SIZE * 5 + 4, position) for position in positions)
    (directory / f"{0:020d}.index").write_bytes(entries)


def cuts(tasks: list[tuple[SegmentRange, ...]]) -> list[tuple[int, int]]:
    return [(each.start, each.end) for task in tasks for each in task]


def test_a_large_segment_is_divided_at_entries_of_its_index(tmp_path: Path) -> None:
    index(tmp_path, [number * SIZE for number in range(10, 400, 10)])
    tasks = planned(tmp_path, [b"".join(BATCHES)], task_bytes=100 * SIZE)
    assert cuts(tasks) == [(start * SIZE, (start + 100) * SIZE) for start in (0, 100, 200, 300)]
    assert len(tasks) == 4


def test_an_index_that_is_wrong_is_not_believed(tmp_path: Path) -> None:
    index(tmp_path, [number * SIZE + 3 for number in range(10, 400, 10)])
    tasks = planned(tmp_path, [b"".join(BATCHES)], task_bytes=100 * SIZE)
    assert cuts(tasks) == [(0, 400 * SIZE)]


@pytest.mark.parametrize("content", [b"", b"\x01\x02\x03", bytes(800), b"\xff" * 80])
def test_an_index_that_is_none_divides_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{0:020d}.index").write_bytes(content)
    assert len(planned(tmp_path, [b"".join(BATCHES)], task_bytes=100 * SIZE)) == 1


def test_small_segments_share_a_task(tmp_path: Path) -> None:
    tasks = planned(tmp_path, [b"".join(BATCHES[:2])] * 30, task_bytes=64 << 20)
    assert [len(task) for task in tasks] == [30]


def test_an_empty_segment_is_nobodys(tmp_path: Path) -> None:
    assert planned(tmp_path, [b"", BATCHES[0]], task_bytes=64 << 20)[0][0].segment.base_offset == 1
    assert planned(tmp_path, [b""], task_bytes=64 << 20) == []
