"""An Iceberg table, by pyiceberg. Files are named where tasks have left them; the marker is a property of the table, set in the same commit.

Snapshots carry the marker, too, for those who look, but snapshots expire. pyiceberg would repeat a commit on top of others that came between
by itself. It is told not to: the marker may be among them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table as Loaded
from pyiceberg.table import Transaction
from pyiceberg.table.upsert_util import create_match_filter

from tidelog.pipeline.sink.options import local_path
from tidelog.pipeline.tables.changes import Changes
from tidelog.pipeline.tables.errors import CommitConflict, TableFailed
from tidelog.pipeline.tables.files import DataFile, FileWriter, Place
from tidelog.pipeline.tables.marker import Marker
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.schemas import check_partitions, check_same, stored_schema, table_columns

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from sqlalchemy.exc import SQLAlchemyError
except ImportError:  # catalogs of other kinds do without it
    _WORLD: tuple[type[BaseException], ...] = (OSError,)
else:
    _WORLD = (OSError, SQLAlchemyError)
"""What disks, networks and databases below a catalog may say."""

_UNUSABLE: Final[tuple[type[BaseException], ...]] = (ValueError, CommitFailedException, *_WORLD)
_MAY_PASS: Final[tuple[type[BaseException], ...]] = (
    CommitFailedException,
    CommitStateUnknownException,
    ValidationException,
    *_WORLD,
)

_DATA: Final = "data"
_MARKER: Final = "tidelog.marker."
_RETRIES: Final = "commit.retry.num-retries"
_KEPT_SMALL: Final = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Of tables that are made here: a commit for every micro-batch would else leave more and more files of metadata."""


class IcebergTable:
    """See Table."""

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings
        self._catalog: Catalog | None = None

    def prepare(self, schema: pa.Schema) -> Path:
        """Make the table, or compare, or add the columns that it does not have."""
        with self._explained():
            wanted = stored_schema(schema, self.settings)
            table = self._loaded() or self._made(wanted)
            root = _root(table)
            check_partitions(_partitions(table), self.settings)
            there = schema_to_pyarrow(table.schema(), include_field_ids=False)
            if check_same(there, table_columns(schema, self.settings), self.settings):
                self._add_columns(table, wanted)
        return root / _DATA

    def look(self, writer_id: str) -> IcebergView:
        """The newest metadata of the table."""
        with self._explained():
            table = self._loaded()
        if table is None:
            raise TableFailed(f"the {self.settings.called} is gone from its catalog")
        text = table.properties.get(f"{_MARKER}{writer_id}", "")
        return IcebergView(table, self.settings, Marker.parse(text))

    def clean_up(self, place: Place, marker: Marker) -> None:
        """What other runs wrote for the micro-batch is in directories of theirs."""
        place.clear_others(marker.number, marker.run)

    def compact(self, marker: Marker) -> None:
        """pyiceberg does not do it: never."""

    def _loaded(self) -> Loaded | None:
        try:
            return self._opened().load_table(self.settings.name or "")
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _made(self, schema: pa.Schema) -> Loaded:
        """Of two that make it at the same time one wins, and the other compares."""
        name = self.settings.name or ""
        catalog = self._opened()
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        with suppress(TableAlreadyExistsError, CommitFailedException):
            making = catalog.create_table_transaction(name, schema=schema, properties=_KEPT_SMALL)
            with making, making.update_spec() as spec:
                for term in self.settings.terms:
                    spec.add_field(term.column, term.unit or "identity", term.name)
        return catalog.load_table(name)

    def _add_columns(self, table: Loaded, wanted: pa.Schema) -> None:
        try:
            with table.update_schema() as update:
                update.union_by_name(wanted)
        except CommitFailedException:
            # Somebody else may have added the same.
            again = schema_to_pyarrow(table.refresh().schema(), include_field_ids=False)
            if check_same(again, wanted, self.settings):
                raise

    def _opened(self) -> Catalog:
        if self._catalog is None:
            properties = {name: value for name, value in self.settings.catalog.items() if name != "name"}
            self._catalog = load_catalog(self.settings.catalog_name, **properties)
        return self._catalog

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except _UNUSABLE as error:
            raise TableFailed(f"the {self.settings.called} cannot be used: {error}") from error


class IcebergView:
    """See View."""

    def __init__(self, table: Loaded, settings: TableSettings, marker: Marker | None) -> None:
        self.marker = marker
        self._settings = settings
        self._table = table
        # In this copy of the metadata only.
        unrepeated = {**table.metadata.properties, _RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": unrepeated})

    def append(self, files: Sequence[DataFile], marker: Marker) -> None:
        """One commit, with one snapshot."""
        with self._transaction(marker) as changing:
            _add(changing, self._table, [file.path for file in files], marker)

    def upsert(self, changes: Changes, marker: Marker, directory: Path) -> None:
        """One commit: all rows with these keys go, and those that are to be there come. Files with both are written anew by pyiceberg."""
        rows = changes.rows
        writer = FileWriter(directory, "changes", rows.schema, self._settings, self._settings.terms)
        for batch in rows.to_batches():
            writer.append(batch)
        files = writer.finish()
        with self._transaction(marker) as changing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing was deleted
            if self._table.current_snapshot() is not None:
                keys = create_match_filter(changes.keys, list(changes.upsert.key))
                changing.delete(keys, snapshot_properties=_summary(marker))
            if files:
                _add(changing, self._table, [file.path for file in files], marker)

    @contextmanager
    def _transaction(self, marker: Marker) -> Iterator[Transaction]:
        try:
            with self._table.transaction() as changing:
                changing.set_properties({f"{_MARKER}{marker.writer_id}": marker.to_json()})
                yield changing
        except _MAY_PASS as error:
            raise CommitConflict(str(error)) from error
        except ValueError as error:
            raise TableFailed(f"the {self._settings.called} could not be committed to: {error}") from error


def _add(changing: Transaction, table: Loaded, paths: Sequence[str], marker: Marker) -> None:
    # Names with chance in them are new: no need to look through all files of the table.
    prefix = "file://" if table.location().startswith("file:") else ""
    changing.add_files(
        [f"{prefix}{path}" for path in paths], snapshot_properties=_summary(marker), check_duplicate_files=False
    )


def _summary(marker: Marker) -> dict[str, str]:
    return {"tidelog.query": marker.writer_id, "tidelog.micro-batch": str(marker.number)}


def _root(table: Loaded) -> Path:
    root = local_path(table.location(), "catalog.warehouse")
    if root is None:
        raise TableFailed(f"table {'.'.join(table.name())} has no location")
    return root


def _partitions(table: Loaded) -> list[str]:
    """How the table is divided, in the words of partition.by."""
    words = []
    for field in table.spec().fields:
        column = table.schema().find_column_name(field.source_id)
        words.append(f"{column}" if str(field.transform) == "identity" else f"{field.transform}({column})")
    return words
