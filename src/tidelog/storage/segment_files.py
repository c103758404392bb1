"""The four files of one segment, by name and by descriptor."""

from __future__ import annotations

from tidelog.model import Offset, TimestampMs
from tidelog.runtime import File
from tidelog.storage.names import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from tidelog.storage.open_files import LazyFile, OpenFiles


class SegmentFiles:
    """Batches and indexes, each open while it is used; `state` is the ending of files that are not the log's yet."""

    __slots__ = ("_disk", "_stem", "batches", "offset_index", "time_index", "transaction_index")

    def __init__(self, files: OpenFiles, directory: str, base_offset: Offset, state: str = "") -> None:
        self._disk = files.disk
        self._stem = f"{directory}/{file_name(base_offset, '')}"
        self.batches = LazyFile(files, self.path(LOG) + state)
        self.offset_index = LazyFile(files, self.path(OFFSET_INDEX) + state)
        self.time_index = LazyFile(files, self.path(TIME_INDEX) + state)
        self.transaction_index = LazyFile(files, self.path(TRANSACTION_INDEX) + state)

    def path(self, suffix: str) -> str:
        """Where the file with this suffix is once it is the log's."""
        return self._stem + suffix

    def hold_batches(self) -> None:
        """Keep the batches open: the segment is written to."""
        self.batches.hold()

    def hold_all(self) -> list[File]:
        """All files of a sealed segment, open until `rest`, for a flush."""
        files = []
        for lazy_file in self._all():
            lazy_file.hold()
            files.append(lazy_file.use(create=True))
        return files

    def rest(self) -> None:
        """Nobody writes or flushes the segment: its files are open only while they are used now and then."""
        for lazy_file in self._all():
            lazy_file.release()

    def close(self) -> None:
        """Give the descriptors back."""
        for lazy_file in self._all():
            lazy_file.close()

    def mtime_ms(self) -> TimestampMs:
        """When the batches were last written: the age of a segment whose batches carry no timestamps."""
        return self._disk.mtime_ms(self.batches.path)

    def _all(self) -> tuple[LazyFile, ...]:
        return self.batches, self.offset_index, self.time_index, self.transaction_index
