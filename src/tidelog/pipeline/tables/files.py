"""Parquet files that tasks write, and the directories in which nobody sees them yet.

`<root>/<writer id>/<number>/<run>/<task>-<attempt>-<chance>.parquet`, or `.staged` where files are moved later. A file is written under
another name, flushed and renamed, so what has its right name is whole. Each run of a query has its own directory for a micro-batch, so
that drivers who do not know of each other never delete each other's files before one of them has published the micro-batch.
"""

from __future__ import annotations

import os
import shutil
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import quote

from tidelog.pipeline.sink.errors import StagingFailed
from tidelog.pipeline.tables.options import ICEBERG, PARQUET, TableSettings
from tidelog.pipeline.tables.partitioning import Term, Values, split
from tidelog.pipeline.tables.statistics import file_statistics
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData, ParquetWriter

GATHERED_BYTES: Final = 64 << 20
"""So much a task holds in memory before it writes: a row group for every partition that is in it."""

OPEN_FILES_MAX: Final = 16
"""So many files a task has open; for another one that which was opened first is finished."""

_SUFFIX: Final = ".parquet"
_STAGED: Final = ".staged"  # in a directory that others read: no pattern of theirs shall find it
_UNFINISHED: Final = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """What a task tells the driver of a file."""

    path: str
    values: Values  # of the partition, in the order of the terms
    row_count: int
    size_bytes: int
    statistics: str  # as Delta's log has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the files of one writer are until they are published, or for ever if the format leaves them there."""

    root: Path
    writer_id: str

    def of(self, number: int, run: str) -> Path:
        """The directory of one run's files for a micro-batch."""
        return self._of_number(number) / run

    def clear_losers(self, number: int, run: str, kept: Iterable[DataFile]) -> None:
        """Delete what this run wrote for a micro-batch but for what is to be published."""
        names = {Path(file.path).name for file in kept}
        with suppress(OSError):
            for file in self.of(number, run).iterdir():
                if file.name not in names:
                    file.unlink(missing_ok=True)

    def clear_others(self, number: int, run: str) -> None:
        """Delete what other runs wrote for a micro-batch that this run has published."""
        with suppress(OSError):
            for directory in self._of_number(number).iterdir():
                if directory.name != run:
                    shutil.rmtree(directory, ignore_errors=True)

    def clear_up_to(self, number: int) -> None:
        """Delete everything of this micro-batch and those before it."""
        with suppress(OSError):
            for directory in (self.root / quote(self.writer_id, safe="")).iterdir():
                if directory.name.isdecimal() and int(directory.name) <= number:
                    shutil.rmtree(directory, ignore_errors=True)

    def _of_number(self, number: int) -> Path:
        return self.root / quote(self.writer_id, safe="") / str(number)


@dataclass(slots=True)
class _Open:
    values: Values
    path: Path
    file: IO[bytes]
    writer: ParquetWriter
    metadata: list[FileMetaData]  # once the writer is closed


class FileWriter:
    """The files of one attempt: `append` rows, then `finish`, or `discard`. Raises StagingFailed where the disk does not take them."""

    def __init__(
        self, directory: Path, name: str, schema: pa.Schema, settings: TableSettings, terms: tuple[Term, ...]
    ) -> None:
        self._directory = directory
        self._name = name
        self._settings = settings
        self._terms = terms
        self._suffix = _STAGED if settings.table_format == PARQUET else _SUFFIX
        # Iceberg wants all columns in the file; elsewhere those of the partition are told by directory or log.
        left_out = {term.column for term in terms if term.unit is None and settings.table_format != ICEBERG}
        self._columns = [name for name in schema.names if name not in left_out]
        self._schema = schema
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._open: OrderedDict[Values, _Open] = OrderedDict()
        self._done: list[DataFile] = []

    def append(self, rows: pa.RecordBatch) -> None:
        """Take rows; they may be written later."""
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes >= GATHERED_BYTES:
            self._write_gathered()

    def finish(self) -> tuple[DataFile, ...]:
        """Bring everything to the disk, and give the files their names."""
        self._write_gathered()
        try:
            for values in list(self._open):
                self._close(values)
            if self._done:
                sync_directory(self._directory)
        except OSError as error:
            raise self._failed(error) from error
        return tuple(self._done)

    def discard(self) -> None:
        """Leave nothing behind, as far as that is possible."""
        for opened in self._open.values():
            with suppress(OSError):
                opened.file.close()
            with suppress(OSError):
                opened.path.with_name(opened.path.name + _UNFINISHED).unlink(missing_ok=True)
        delete_files(self._done)

    def _write_gathered(self) -> None:
        import pyarrow as pa

        rows = [batch for batch in self._gathered if batch.num_rows]
        self._gathered, self._gathered_bytes = [], 0
        if not rows:
            return
        table = pa.Table.from_batches(rows)
        table = table if table.schema.equals(self._schema) else table.cast(self._schema)
        try:
            for values, part in split(table, self._terms):
                self._write(values, part.select(self._columns))
        except OSError as error:
            raise self._failed(error) from error

    def _write(self, values: Values, rows: pa.Table) -> None:
        opened = self._open.get(values) or self._opened(values, rows.schema)
        opened.writer.write_table(rows)
        if opened.file.tell() >= self._settings.file_bytes:
            self._close(values)

    def _opened(self, values: Values, schema: pa.Schema) -> _Open:
        from pyarrow.parquet import ParquetWriter

        while len(self._open) >= OPEN_FILES_MAX:
            self._close(next(iter(self._open)))
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{self._name}-{real_runtime().randomness.uuid().hex}{self._suffix}"
        file = path.with_name(path.name + _UNFINISHED).open("xb")
        metadata: list[FileMetaData] = []
        writer = ParquetWriter(file, schema, compression=self._settings.compression, metadata_collector=metadata)
        self._open[values] = _Open(values, path, file, writer, metadata)
        return self._open[values]

    def _close(self, values: Values) -> None:
        opened = self._open[values]
        opened.writer.close()
        (metadata,) = opened.metadata
        opened.file.flush()
        os.fsync(opened.file.fileno())
        size_bytes = opened.file.tell()
        opened.file.close()
        opened.path.with_name(opened.path.name + _UNFINISHED).rename(opened.path)
        del self._open[values]
        self._done.append(
            DataFile(
                path=str(opened.path),
                values=values,
                row_count=metadata.num_rows,
                size_bytes=size_bytes,
                statistics=file_statistics(metadata),
            )
        )

    def _failed(self, error: OSError) -> StagingFailed:
        return StagingFailed(
            f"a task could not write to {self._directory} ({error.strerror or error}): the {self._settings.called} must be "
            "in a file system that driver and executors share, with room in it"
        )


def delete_files(files: Iterable[DataFile]) -> None:
    """Delete these files, and the directory if it was the last one; what cannot be deleted is left."""
    for file in files:
        with suppress(OSError):
            Path(file.path).unlink(missing_ok=True)
        with suppress(OSError):
            Path(file.path).parent.rmdir()


def check_files(files: Iterable[DataFile]) -> None:
    """Raises StagingFailed where the driver does not see a file as its task has left it: no commit may name it then."""
    for file in files:
        try:
            size_bytes = Path(file.path).stat().st_size
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error)) from error
        if size_bytes != file.size_bytes:
            raise _unreadable(file, f"it has {size_bytes} bytes of {file.size_bytes}")


def read_rows(files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    """The rows of files that tasks have left. Raises StagingFailed."""
    from pyarrow.parquet import ParquetFile

    for file in files:
        try:
            with ParquetFile(file.path) as opened:
                yield from opened.iter_batches()
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error)) from error


def _unreadable(file: DataFile, why: str) -> StagingFailed:
    return StagingFailed(
        f"the driver cannot read {file.path}, which a task has written ({why}): the table must be in a file system that "
        "driver and executors share"
    )


def sync_directory(directory: Path) -> None:
    """Bring the names in a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
