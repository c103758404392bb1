"""Files in which tasks leave encoded batches for the driver, beside the checkpoint.

A file is written under another name, flushed and renamed, so what has its right name is whole. Nothing hangs on a file for longer than one
call of `commit`: a file that is lost makes that fail, and the micro-batch is computed anew. So files may be deleted by anybody as soon as
their micro-batch is decided, and those that nobody names (of attempts that failed or lost, of drivers that died) go at the same time.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from crc32c import crc32c

from tidelog.model import TopicPartition
from tidelog.pipeline.sink.errors import StagingFailed
from tidelog.pipeline.sink.modes import Task
from tidelog.records.batch import CorruptBatch, crc_holds, read_header
from tidelog.runtime.real import real_runtime

CHUNK_BYTES: Final = 4 << 20
"""How much is read at a time; a batch that is larger is read at once."""

_FRAME: Final = struct.Struct(
    ">IHiiI"
)  # checksum of the rest and the name, size of the name, partition, record count, size of the data
_CHECKED_AT: Final = 4
_FRAME_BYTES_MAX: Final = (1 << 31) - 1
_SUFFIX: Final = ".staged"
_UNFINISHED: Final = ".tmp"
_NAME: Final = re.compile(r"(?P<micro_batch>\d+)-\d+-\d+-[0-9a-f]+\.staged(\.tmp)?")
_OLD_JOB_MS: Final = 24 * 3600 * 1000
_BATCH_JOB: Final = 0  # in place of a micro-batch id, in a directory that is the job's own


@dataclass(frozen=True, slots=True)
class Frame:
    """One encoded batch and where it goes. The data may be written to."""

    topic_partition: TopicPartition
    record_count: int
    data: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """What a task tells the driver of its file."""

    path: str
    size_bytes: int
    record_count: int
    topics: tuple[str, ...]


class StagingWriter:
    """The file of one attempt: `append`, then `finish`, or `discard`. Raises StagingFailed where the disk does not take it."""

    def __init__(self, directory: Path, task: Task) -> None:
        micro_batch = _BATCH_JOB if task.micro_batch_id is None else task.micro_batch_id
        chance = real_runtime().randomness.uuid().hex
        self._path = directory / f"{micro_batch}-{task.partition}-{task.attempt_id}-{chance}{_SUFFIX}"
        self._unfinished = directory / f"{self._path.name}{_UNFINISHED}"
        self._file: IO[bytes] | None = None
        self._size_bytes = 0
        self._record_count = 0
        self._topics: set[str] = set()

    def append(self, topic: str, partition: int, record_count: int, data: memoryview) -> None:
        """Write one batch."""
        name = topic.encode()
        try:
            file = self._opened()
            self._size_bytes += file.write(_frame_head(name, partition, record_count, len(data)))
            self._size_bytes += file.write(data)
        except OSError as error:
            raise self._failed(error) from error
        self._record_count += record_count
        self._topics.add(topic)

    def finish(self) -> StagedFile | None:
        """Bring the file to the disk and give it its name; None where nothing was written."""
        if self._file is None:
            return None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._unfinished.rename(self._path)
        except OSError as error:
            raise self._failed(error) from error
        return StagedFile(
            path=str(self._path),
            size_bytes=self._size_bytes,
            record_count=self._record_count,
            topics=tuple(sorted(self._topics)),
        )

    def discard(self) -> None:
        """Leave nothing behind, as far as that is possible."""
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
        with suppress(OSError):
            self._unfinished.unlink(missing_ok=True)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._unfinished.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._unfinished.open("wb", buffering=1 << 16)
        return self._file

    def _failed(self, error: OSError) -> StagingFailed:
        return StagingFailed(
            f"a task cannot stage its rows in {self._path.parent} ({error.strerror or error}): make room there, or set "
            "the option staging.dir to another directory that driver and executors share"
        )


def read_staged(staged: StagedFile) -> Iterator[list[Frame]]:
    """All batches of a file, in order, so many at a time as are read at once. Raises StagingFailed."""
    try:
        with Path(staged.path).open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size != staged.size_bytes:
                raise StagingFailed(
                    f"staged file {staged.path} has {size} bytes, and its task wrote {staged.size_bytes}"
                )
            position = 0
            while position < size:
                chunk = _read_at(file, position, min(CHUNK_BYTES, size - position))
                frames, used = _frames_in(chunk, staged.path)
                if not frames:
                    chunk = _read_at(file, position, _first_frame_bytes(chunk, staged.path))
                    frames, used = _frames_in(chunk, staged.path)
                position += used
                yield frames
    except OSError as error:
        raise StagingFailed(
            f"the driver cannot read {staged.path}, which a task has staged ({error.strerror or error}): set the option "
            "staging.dir to a directory that driver and executors share"
        ) from error


def delete_staged(files: Iterable[StagedFile]) -> None:
    """Delete these files; what cannot be deleted now is left for `delete_decided`."""
    for staged in files:
        with suppress(OSError):
            Path(staged.path).unlink(missing_ok=True)


def delete_decided(directory: Path, micro_batch_id: int) -> None:
    """Delete whatever was staged for a decided micro-batch, and all before it, by whomever; what cannot be deleted is left for later."""
    with suppress(OSError):
        for file in directory.iterdir():
            name = _NAME.fullmatch(file.name)
            if name is not None and int(name["micro_batch"]) <= micro_batch_id:
                with suppress(OSError):
                    file.unlink(missing_ok=True)


def delete_job(directory: Path) -> None:
    """Delete the directory of a batch job, if nobody else has left anything there."""
    delete_decided(directory, _BATCH_JOB)
    with suppress(OSError):
        directory.rmdir()


def delete_old_jobs(root: Path, now_ms: float) -> None:
    """Delete what batch jobs have staged that did not live to do so: directories of jobs that nothing was written to for a day."""
    with suppress(OSError):
        for directory in root.glob("job-*"):
            if now_ms - directory.stat().st_mtime * 1000 > _OLD_JOB_MS:
                delete_job(directory)


def _frame_head(name: bytes, partition: int, record_count: int, size: int) -> bytes:
    head = _FRAME.pack(0, len(name), partition, record_count, size) + name
    return struct.pack(">I", crc32c(head[_CHECKED_AT:])) + head[_CHECKED_AT:]


def _read_at(file: IO[bytes], position: int, size_bytes: int) -> memoryview:
    chunk = memoryview(bytearray(size_bytes))
    file.seek(position)
    filled = 0
    while filled < size_bytes:
        count = os.readv(file.fileno(), [chunk[filled:]])
        if not count:
            raise StagingFailed(f"staged file {file.name} became shorter while it was read")
        filled += count
    return chunk


def _frames_in(chunk: memoryview, path: str) -> tuple[list[Frame], int]:
    """The whole frames at the beginning of a chunk, and how many bytes they take."""
    frames: list[Frame] = []
    position = 0
    while position + _FRAME.size <= len(chunk):
        crc, name_size, partition, record_count, size = _FRAME.unpack_from(chunk, position)
        data_at = position + _FRAME.size + name_size
        if data_at + size > len(chunk):
            break
        if crc32c(chunk[position + _CHECKED_AT : data_at]) != crc:
            raise _damaged(path)
        topic = bytes(chunk[position + _FRAME.size : data_at]).decode()
        data = chunk[data_at : data_at + size]
        _check(data, record_count, path)
        frames.append(Frame(TopicPartition(topic, partition), record_count, data))
        position = data_at + size
    return frames, position


def _first_frame_bytes(chunk: memoryview, path: str) -> int:
    if len(chunk) < _FRAME.size:
        raise _damaged(path)
    _, name_size, _, _, size = _FRAME.unpack_from(chunk, 0)
    whole: int = _FRAME.size + name_size + size
    if whole <= len(chunk) or whole > _FRAME_BYTES_MAX:
        raise _damaged(path)
    return whole


def _check(data: memoryview, record_count: int, path: str) -> None:
    """What is sent gets a checksum of its own: so damage must be noticed here."""
    try:
        header = read_header(data)
    except CorruptBatch:
        raise _damaged(path) from None
    if header.size != len(data) or header.record_count != record_count or not crc_holds(data, 0, header):
        raise _damaged(path)


def _damaged(path: str) -> StagingFailed:
    return StagingFailed(
        f"staged file {path} is damaged: its disk, or somebody else, has changed it; start the query again"
    )
