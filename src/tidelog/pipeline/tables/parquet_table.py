"""A directory of Parquet files for whoever reads directories, with a log of its own so that no row is in it twice.

`_tidelog/commits/<writer id>/<number>.json` is the point of no return: it names the files of the micro-batch and what they will be called.
It is made once (link(2) refuses a second), and after it files are only moved, one by one, by whoever comes; `<number>.done` says that all
are in place. What is not moved yet lies below `_tidelog`, under names that Spark, pyarrow and the patterns of DuckDB pass over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tidelog.pipeline.tables.errors import CommitConflict, TableFailed
from tidelog.pipeline.tables.files import DataFile, Place, sync_directory
from tidelog.pipeline.tables.marker import Marker
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.schemas import check_partitions, check_same, stored_schema, table_columns
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.pipeline.tables.changes import Changes

OWN: Final = "_tidelog"
_SCHEMA: Final = "schema"
_PARTITIONS: Final = b"tidelog.partition.by"
_ENTRIES_KEPT: Final = 16
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the log says of one micro-batch."""

    marker: Marker
    moves: tuple[tuple[str, str], ...]  # from where to where, below the table

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps({"marker": self.marker.to_json(), "moves": self.moves})

    @classmethod
    def read(cls, path: Path) -> Entry:
        """Raises TableFailed where it cannot be read."""
        try:
            words = json.loads(path.read_text())
            marker = Marker.parse(words["marker"])
            moves = tuple((str(source), str(target)) for source, target in words["moves"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TableFailed(f"the commit log {path} cannot be read: {error}") from error
        if marker is None:
            raise TableFailed(f"the commit log {path} names no micro-batch")
        return cls(marker=marker, moves=moves)


class ParquetTable:
    """See Table."""

    def __init__(self, settings: TableSettings) -> None:
        if settings.path is None:
            raise TableFailed("a Parquet table is a directory")
        self._settings = settings
        self.path = settings.path

    def prepare(self, schema: pa.Schema) -> Path:
        """Write down the columns, or compare them with those that are written down."""
        file = self.path / OWN / _SCHEMA
        try:
            if not file.exists():
                self._begin(file, stored_schema(schema, self._settings))
            there = _read_schema(file)
        except OSError as error:
            raise TableFailed(f"the {self._settings.called} cannot be written: {error}") from error
        check_same(there, table_columns(schema, self._settings), self._settings)
        check_partitions(json.loads((there.metadata or {}).get(_PARTITIONS, b"[]")), self._settings)
        return self.path / OWN / "staging"

    def look(self, writer_id: str) -> ParquetView:
        """The newest entry of the log; what it names is moved first."""
        log = CommitLog(self.path, writer_id)
        number = log.last_number()
        if number is None:
            return ParquetView(self, log, None)
        entry = Entry.read(log.entry(number))
        if not log.done(number).exists():
            self.roll_forward(log, entry)
        return ParquetView(self, log, entry.marker)

    def roll_forward(self, log: CommitLog, entry: Entry) -> None:
        """Move all files of a decided micro-batch to their places. Whoever does it, and how often, the end is the same."""
        for source, target in entry.moves:
            self.move(self.path / source, self.path / target)
        for directory in sorted({(self.path / target).parent for _, target in entry.moves}):
            sync_directory(directory)
        self.finish(log, entry)

    def move(self, source: Path, target: Path) -> None:
        """Raises TableFailed where the file is in neither place."""
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
        except FileNotFoundError as error:
            if not target.exists():
                raise TableFailed(
                    f"{source} of the {self._settings.called} is gone, which a commit has named: whoever deleted it must "
                    "put it back"
                ) from error
        except OSError as error:
            raise TableFailed(f"{source} cannot be moved to {target}: {error.strerror or error}") from error

    def finish(self, log: CommitLog, entry: Entry) -> None:
        """Say that all is in place, and forget what is long done."""
        log.done(entry.marker.number).touch()
        log.forget(entry.marker.number - _ENTRIES_KEPT)

    def clean_up(self, place: Place, marker: Marker) -> None:
        """Nothing is read from there any more."""
        place.clear_up_to(marker.number)

    def compact(self, marker: Marker) -> None:
        """Two files cannot give way to one at once in a directory: never."""

    def _begin(self, file: Path, schema: pa.Schema) -> None:
        """Of two that begin at the same time one wins, and the other compares."""
        import pyarrow.parquet as pq

        self.path.mkdir(parents=True, exist_ok=True)
        strangers = sorted(each.name for each in self.path.iterdir() if each.name != OWN)
        if strangers:
            raise TableFailed(
                f"{self.path} is no table of this sink, and not empty ({strangers[0]}): name an empty directory in table.path"
            )
        file.parent.mkdir(exist_ok=True)
        terms = json.dumps([str(term) for term in self._settings.terms]).encode()
        draft = file.with_name(f"{_SCHEMA}-{real_runtime().randomness.uuid().hex}")
        pq.write_metadata(schema.with_metadata({_PARTITIONS: terms}), draft)
        _publish(draft, file)


class CommitLog:
    """The entries of one writer."""

    def __init__(self, table: Path, writer_id: str) -> None:
        self.directory = table / OWN / "commits" / quote(writer_id, safe="")

    def entry(self, number: int) -> Path:
        """The file that decides."""
        return self.directory / f"{number}.json"

    def done(self, number: int) -> Path:
        """The file that says that nothing is left to do."""
        return self.directory / f"{number}.done"

    def last_number(self) -> int | None:
        """The newest micro-batch that is decided. Only that one can be half done."""
        return max(self._numbers(), default=None)

    def forget(self, number: int) -> None:
        """Delete the entries up to this one."""
        for each in self._numbers():
            if each <= number:
                self.entry(each).unlink(missing_ok=True)
                self.done(each).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return [int(name.removesuffix(".json")) for name in names if name.endswith(".json") and name[:-5].isdecimal()]


class ParquetView:
    """See View."""

    def __init__(self, table: ParquetTable, log: CommitLog, marker: Marker | None) -> None:
        self.marker = marker
        self._table = table
        self._log = log

    def append(self, files: Sequence[DataFile], marker: Marker) -> None:
        """Decide, then move."""
        entry = Entry(marker=marker, moves=tuple(self._moves(files, marker)))
        self.decide(entry)
        self._table.roll_forward(self._log, entry)

    def decide(self, entry: Entry) -> None:
        """Make the entry, which nobody else can then. Raises CommitConflict where somebody has."""
        self._log.directory.mkdir(parents=True, exist_ok=True)
        draft = self._log.directory / f"draft-{real_runtime().randomness.uuid().hex}"
        with draft.open("w") as file:
            file.write(entry.to_json())
            file.flush()
            os.fsync(file.fileno())
        number = entry.marker.number
        if not _publish(draft, self._log.entry(number)):
            raise CommitConflict(f"another driver has published micro-batch {number}")
        # An entry that was forgotten can be made again, but only by who looked before newer ones were there.
        if self._log.last_number() != number:
            self._log.entry(number).unlink(missing_ok=True)
            raise CommitConflict(f"another driver has published micro-batches after {number}")

    def upsert(self, changes: Changes, marker: Marker, directory: Path) -> None:
        """Parquet files are only added to; the options do not let anybody come here."""
        raise TableFailed("Parquet tables are not written by key")

    def _moves(self, files: Sequence[DataFile], marker: Marker) -> list[tuple[str, str]]:
        terms = self._table._settings.terms  # noqa: SLF001  # the other half of one thing
        moves = []
        for index, file in enumerate(files):
            parts = [f"{quote(term.name)}={_directory(value)}" for term, value in zip(terms, file.values, strict=True)]
            name = f"part-{quote(marker.writer_id, safe='')}-{marker.number:010d}-{index:04d}.parquet"
            moves.append((str(Path(file.path).relative_to(self._table.path)), "/".join([*parts, name])))
        return moves


def visible_files(table: Path) -> list[Path]:
    """The files of whole micro-batches, for a reader that wants no part of one. One that is not quite in place is left out."""
    log = table / OWN / "commits"
    done = set(log.glob("*/*.done"))
    found = [file for file in table.rglob("*.parquet") if table / OWN not in file.parents]
    # Looked at in this order: what was not done before the files were listed may be listed in part.
    moving = [path for path in log.glob("*/*.json") if path.with_suffix(".done") not in done]
    left_out = {table / target for path in moving for _, target in Entry.read(path).moves}
    return sorted(file for file in found if file not in left_out)


def _read_schema(file: Path) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(file)
    except pa.ArrowInvalid as error:
        raise TableFailed(f"{file} is damaged: {error}") from error


def _directory(value: str | None) -> str:
    return _NULL if value is None else quote(value, safe=" ")


def _publish(draft: Path, path: Path) -> bool:
    """Give a file its name, unless that is taken; whether it was free."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            draft.unlink()
    sync_directory(path.parent)
    return True
