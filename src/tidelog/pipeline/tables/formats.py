"""What the kinds of tables have in common, as the driver sees them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.tables.files import DataFile, Place
from tidelog.pipeline.tables.marker import Marker
from tidelog.pipeline.tables.options import DELTA, ICEBERG, PARQUET, TableSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.pipeline.tables.changes import Changes


class View(Protocol):
    """A table as it was at one moment. What is published is published on top of exactly that."""

    @property
    def marker(self) -> Marker | None:
        """The last one of the writer for whom the table was looked at."""
        ...

    def append(self, files: Sequence[DataFile], marker: Marker) -> None:
        """Make the files part of the table, with the marker, at once. Raises CommitConflict where the table has changed meanwhile."""
        ...

    def upsert(self, changes: Changes, marker: Marker, directory: Path) -> None:
        """Let rows take the place of those with the same keys, with the marker, at once; `directory` is for new files.

        Raises CommitConflict where the table has changed meanwhile.
        """
        ...


class Table(Protocol):
    """A table of one format. Its class is called with TableSettings alone, and knows nothing that a reload would not find."""

    def prepare(self, schema: pa.Schema) -> Path:
        """Make the table unless it is there; returns where tasks put their files. Idempotent. Raises TableFailed, also for another schema."""
        ...

    def look(self, writer_id: str) -> View:
        """The table as it is now, after what a dead driver left half done was finished. Raises TableFailed."""
        ...

    def clean_up(self, place: Place, marker: Marker) -> None:
        """Delete what nobody names, now that the micro-batch of `marker` is published."""
        ...

    def compact(self, marker: Marker) -> None:
        """Put small files together, if it is time for that."""
        ...


_CLASSES: Final = {
    PARQUET: ("tidelog.pipeline.tables.parquet_table", "ParquetTable", "pyarrow"),
    DELTA: ("tidelog.pipeline.tables.delta_table", "DeltaLakeTable", "deltalake"),
    ICEBERG: ("tidelog.pipeline.tables.iceberg_table", "IcebergTable", "pyiceberg"),
}


def table_of(settings: TableSettings) -> Table:
    """The table that the settings name. Only its own module is imported. Raises OptionRefused where its package is not installed."""
    module, name, package = _CLASSES[settings.table_format]
    try:
        import_module(package)
    except ImportError:
        raise OptionRefused(
            "table.format",
            f"{settings.table_format} needs the package {package}, which is not installed where the driver runs: "
            "pip install 'tidelog[spark,tables]'",
        ) from None
    table: Table = getattr(import_module(module), name)(settings)
    return table
