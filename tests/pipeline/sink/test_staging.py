"""Files of encoded batches: whole or not there, read in order, deleted when nobody needs them."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tidelog.model import TopicPartition
from tidelog.pipeline.sink.errors import StagingFailed
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.staging import (
    CHUNK_BYTES,
    Frame,
    StagedFile,
    StagingWriter,
    delete_decided,
    delete_job,
    delete_old_jobs,
    delete_staged,
    read_staged,
)
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.record import read_records


def task(micro_batch_id: int | None = 3) -> Task:
    return Task(partition=1, attempt=0, attempt_id=9, query_id="q", run_id="r", micro_batch_id=micro_batch_id)


def encoded(*values: bytes) -> memoryview:
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(timestamp_ms=1, key=None, value=value)
    return memoryview(builder.build())


def stage(directory: Path, *batches: tuple[str, int, list[bytes]], micro_batch_id: int | None = 3) -> StagedFile:
    writer = StagingWriter(directory, task(micro_batch_id))
    for topic, partition, values in batches:
        writer.append(topic, partition, len(values), encoded(*values))
    staged = writer.finish()
    assert staged is not None
    return staged


def frames(staged: StagedFile) -> list[Frame]:
    return [frame for some in read_staged(staged) for frame in some]


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def test_what_is_staged_is_read_in_order(tmp_path: Path) -> None:
    staged = stage(tmp_path / "new", ("t", 0, [b"a", b"b"]), ("ü", 7, [b"c"]), ("t", 0, [b"d"]))
    assert (staged.record_count, staged.topics, staged.size_bytes) == (4, ("t", "ü"), Path(staged.path).stat().st_size)
    found = [
        (frame.topic_partition, [record.value for record in read_records(frame.data, max_bytes=100)])
        for frame in frames(staged)
    ]
    assert found == [
        (TopicPartition("t", 0), [b"a", b"b"]),
        (TopicPartition("ü", 7), [b"c"]),
        (TopicPartition("t", 0), [b"d"]),
    ]


def test_batches_may_lie_across_chunks_and_be_larger_than_one(tmp_path: Path) -> None:
    sizes = [CHUNK_BYTES // 3] * 4 + [CHUNK_BYTES * 2, 10, CHUNK_BYTES - 100, 1]
    staged = stage(tmp_path, *(("t", index, [b"x" * size]) for index, size in enumerate(sizes)))
    found = frames(staged)
    assert [frame.topic_partition.index for frame in found] == list(range(len(sizes)))
    assert [len(frame.data) >= size for frame, size in zip(found, sizes, strict=True)] == [True] * len(sizes)


def test_what_is_read_may_be_written_to_without_changing_the_file(tmp_path: Path) -> None:
    staged = stage(tmp_path, ("t", 0, [b"a"]))
    frames(staged)[0].data[0] = 1
    assert frames(staged)[0].data[0] == 0


def test_a_task_without_rows_makes_no_file(tmp_path: Path) -> None:
    assert StagingWriter(tmp_path, task()).finish() is None
    assert names(tmp_path) == []


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    writer = StagingWriter(tmp_path, task())
    writer.append("t", 0, 1, encoded(b"a"))
    (unfinished,) = names(tmp_path)
    assert unfinished.endswith(".staged.tmp")
    writer.discard()
    assert names(tmp_path) == []


def test_two_attempts_never_share_a_file(tmp_path: Path) -> None:
    paths = {stage(tmp_path, ("t", 0, [b"a"])).path for _ in range(5)}
    assert len(paths) == 5


def test_a_disk_that_takes_no_more_is_named_with_the_option_and_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = StagingWriter(tmp_path, task())
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        writer.append("t", 0, 1, encoded(b"x" * 50_000))
        with pytest.raises(StagingFailed, match=rf"{tmp_path} \(File too large\).*staging\.dir"):
            writer.append("t", 0, 1, encoded(b"x" * 200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.discard()
    assert names(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StagingFailed, match=r"file/staging \(Not a directory\)"):
        stage(tmp_path / "file" / "staging", ("t", 0, [b"a"]))


def test_a_file_that_is_not_what_its_task_wrote_is_refused(tmp_path: Path) -> None:
    staged = stage(tmp_path, ("topic", 0, [b"a" * 50]))
    whole = Path(staged.path).read_bytes()
    for wrong in (whole[:-1], whole + b"x", b""):
        Path(staged.path).write_bytes(wrong)
        with pytest.raises(StagingFailed, match=r"has \d+ bytes, and its task wrote"):
            frames(staged)
    for position in range(len(whole)):
        Path(staged.path).write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        if _covers(position):
            with pytest.raises(StagingFailed, match=r"damaged|shorter"):
                frames(staged)
    Path(staged.path).unlink()
    with pytest.raises(StagingFailed, match=r"No such file.*share"):
        frames(staged)


def _covers(position: int) -> bool:
    """Whether a flipped bit must be noticed: not where brokers stamp a batch, with its offset and leader epoch."""
    in_batch = position - 18 - len("topic")
    return not 0 <= in_batch < 8 and not 12 <= in_batch < 16


def test_what_is_decided_goes_and_what_is_not_stays(tmp_path: Path) -> None:
    for micro_batch_id in (2, 3, 4):
        stage(tmp_path, ("t", 0, [b"a"]), micro_batch_id=micro_batch_id)
    (tmp_path / "2-0-0-0a.staged.tmp").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    delete_decided(tmp_path, 3)
    assert [name.partition("-")[0] for name in names(tmp_path)] == ["4", "notes.txt"]
    delete_decided(tmp_path / "nowhere", 3)


def test_files_of_messages_are_deleted_once(tmp_path: Path) -> None:
    staged = [stage(tmp_path, ("t", 0, [b"a"])) for _ in range(2)]
    delete_staged(staged[:1])
    delete_staged(staged[:1])
    assert names(tmp_path) == [os.path.basename(staged[1].path)]


def test_the_directory_of_a_job_goes_with_its_files(tmp_path: Path) -> None:
    stage(tmp_path / "job", ("t", 0, [b"a"]), micro_batch_id=None)
    delete_job(tmp_path / "job")
    delete_job(tmp_path / "job")
    assert names(tmp_path) == []


def test_what_jobs_left_that_died_goes_after_a_day(tmp_path: Path) -> None:
    for name in ("job-old", "job-new", "somebody's"):
        stage(tmp_path / name, ("t", 0, [b"a"]), micro_batch_id=None)
    now_ms = (tmp_path / "job-new").stat().st_mtime * 1000
    day_s = 24 * 3600
    for name in ("job-old", "somebody's"):
        os.utime(tmp_path / name, (now_ms / 1000 - day_s - 5,) * 2)
    delete_old_jobs(tmp_path, now_ms)
    delete_old_jobs(tmp_path / "nowhere", now_ms)
    assert names(tmp_path) == ["job-new", "somebody's"]
