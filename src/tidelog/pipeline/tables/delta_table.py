"""A Delta table, by delta-rs. Files are named where tasks have left them; the marker is a transaction of an application in the same commit.

delta-rs would put a commit on top of others that came between by itself. It is told not to: the marker may be among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import deltalake
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from tidelog.pipeline.tables.changes import DELETED, Changes
from tidelog.pipeline.tables.errors import CommitConflict, TableFailed
from tidelog.pipeline.tables.files import DataFile, Place
from tidelog.pipeline.tables.marker import Marker, as_number, from_number
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.partitioning import derived_fields, with_derived
from tidelog.pipeline.tables.schemas import check_partitions, check_same, stored_schema, table_columns
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa

_DATA: Final = "data"
_SOURCE: Final = "source"
_RUN: Final = "run"


class DeltaLakeTable:
    """See Table."""

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings
        self.path = str(settings.path)

    def prepare(self, schema: pa.Schema) -> Path:
        """Make the table, or compare, or add the columns that it does not have."""
        with self._explained():
            wanted = stored_schema(schema, self.settings)
            table = self._loaded() or self._made(wanted)
            check_partitions(self._partitions(table), self.settings)
            derived = {field.name for field in derived_fields(self.settings.terms)}
            there = _arrow(table)
            for name in derived & set(there.names):
                there = there.remove(there.get_field_index(name))
            new = check_same(there, table_columns(schema, self.settings), self.settings)
            if new:
                self._add_columns(table, new)
        return Path(self.path) / _DATA

    def look(self, writer_id: str) -> DeltaView:
        """The newest version of the table."""
        with self._explained():
            table = self._loaded()
        if table is None:
            raise TableFailed(f"the {self.settings.called} is gone")
        return DeltaView(table, self.settings, _marker(table, writer_id))

    def clean_up(self, place: Place, marker: Marker) -> None:
        """What other runs wrote for the micro-batch is in directories of theirs."""
        place.clear_others(marker.number, marker.run)

    def compact(self, marker: Marker) -> None:
        """Every so many micro-batches. If others change the table meanwhile it is left for the next time."""
        every = self.settings.compact_every
        if every and (marker.number + 1) % every == 0:
            with suppress(CommitFailedError), self._explained():
                DeltaTable(self.path).optimize.compact(target_size=self.settings.file_bytes, max_concurrent_tasks=2)

    def _loaded(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError:
            return None

    def _made(self, schema: pa.Schema) -> DeltaTable:
        """Of two that make it at the same time one wins, and the other compares."""
        whole = schema
        for field in derived_fields(self.settings.terms):
            whole = whole.append(field)
        terms = [term.name for term in self.settings.terms]
        DeltaTable.create(self.path, schema=whole, mode="ignore", partition_by=terms)
        return DeltaTable(self.path)

    def _partitions(self, table: DeltaTable) -> list[str]:
        """The columns that divide the table, by the words of partition.by where these mean the same."""
        words = {term.name: str(term) for term in self.settings.terms}
        return [words.get(name, name) for name in table.metadata().partition_columns]

    def _add_columns(self, table: DeltaTable, new: Sequence[pa.Field]) -> None:
        import pyarrow as pa

        fields = deltalake.Schema.from_arrow(pa.schema([field.with_nullable(True) for field in new])).fields
        try:
            table.alter.add_columns(fields)
        except CommitFailedError:
            # Somebody else may have added the same. What is missing still, the next look finds.
            if check_same(_arrow(DeltaTable(self.path)), pa.schema(new), self.settings):
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise TableFailed(f"the {self.settings.called} cannot be used: {error}") from error


class DeltaView:
    """See View."""

    def __init__(self, table: DeltaTable, settings: TableSettings, marker: Marker | None) -> None:
        self.marker = marker
        self._table = table
        self._settings = settings

    def append(self, files: Sequence[DataFile], marker: Marker) -> None:
        """One commit, that adds."""
        added: list[AddAction | RemoveAction] = [self._action(file) for file in files]
        with self._conflicts():
            self._table.create_write_transaction(
                added,
                "append",
                self._table.schema(),
                [term.name for term in self._settings.terms],
                commit_properties=_properties(marker),
            )

    def upsert(self, changes: Changes, marker: Marker, directory: Path) -> None:
        """One commit, that adds and removes. delta-rs reads and writes what has to be."""
        del directory
        rows = with_derived(changes.last, self._settings.terms)
        kept = [name for name in rows.column_names if name != DELETED]
        values = {_quoted(name): f"s.{_quoted(name)}" for name in kept}
        merger = self._table.merge(
            rows,
            " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in changes.upsert.key),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # the rows are in memory, so what they cannot match need not be read
            commit_properties=_properties(marker),
        )
        deleted = f"s.{_quoted(DELETED)}"
        with self._conflicts():
            (
                merger.when_matched_delete(predicate=deleted)
                .when_matched_update(values)
                .when_not_matched_insert(values, predicate=f"NOT {deleted}")
                .execute()
            )

    def _action(self, file: DataFile) -> AddAction:
        path = Path(file.path).relative_to(Path(self._table_path()))
        names = [term.name for term in self._settings.terms]
        return AddAction(
            path=str(path),
            size=file.size_bytes,
            partition_values=dict(zip(names, file.values, strict=True)),
            modification_time=int(real_runtime().clock.wall_ms()),
            data_change=True,
            stats=file.statistics,
        )

    def _table_path(self) -> str:
        return str(self._settings.path)

    @contextmanager
    def _conflicts(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise CommitConflict(str(error)) from error
        except (DeltaError, OSError) as error:
            raise TableFailed(f"the {self._settings.called} could not be committed to: {error}") from error


def _properties(marker: Marker) -> CommitProperties:
    app = _app_id(marker.writer_id)
    return CommitProperties(
        custom_metadata={"tidelog": marker.to_json()},
        max_commit_retries=0,
        app_transactions=[
            Transaction(app, marker.number),
            Transaction(f"{app}/{_SOURCE}", as_number(marker.source)),
            Transaction(f"{app}/{_RUN}", as_number(marker.run)),
        ],
    )


def _marker(table: DeltaTable, writer_id: str) -> Marker | None:
    app = _app_id(writer_id)
    number = table.transaction_version(app)
    source = table.transaction_version(f"{app}/{_SOURCE}")
    run = table.transaction_version(f"{app}/{_RUN}")
    if number is None or source is None or run is None:
        return None
    return Marker(writer_id=writer_id, number=number, source=from_number(source), run=from_number(run))


def _app_id(writer_id: str) -> str:
    return f"tidelog-{writer_id}"


def _arrow(table: DeltaTable) -> Any:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
