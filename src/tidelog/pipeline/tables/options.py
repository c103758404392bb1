"""The options of the format tidelog-table: how they are written, and what they mean for one write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from tidelog.config.kinds import integer, long, one_of, optional_text
from tidelog.config.settings import setting, settings_of
from tidelog.pipeline.options import OptionRefused, optional, read_options
from tidelog.pipeline.sink.options import local_path
from tidelog.pipeline.tables.partitioning import Term, parse_terms
from tidelog.runtime.real import real_runtime

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

APPEND: Final = "append"
UPSERT: Final = "upsert"
ADD_COLUMNS: Final = "add-columns"

_CATALOG: Final = "catalog."
_CATALOG_NAME: Final = "name"
_READ_BY: Final = "pipeline.tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The options as they are written."""

    table_format: str | None = setting(
        "table.format",
        optional(one_of(*FORMATS)),
        "",
        "What kind of table it is. Must be set.",
        read_by=_READ_BY,
    )
    table_path: str | None = setting(
        "table.path",
        optional_text("a directory that driver and executors share"),
        "",
        "Where a Parquet or Delta table is.",
        read_by=_READ_BY,
    )
    table_name: str | None = setting(
        "table.name",
        optional_text("namespace.table"),
        "",
        "What an Iceberg table is called in its catalog, which the options catalog.* describe.",
        read_by=_READ_BY,
    )
    table_mode: str = setting(
        "table.mode",
        one_of(APPEND, UPSERT),
        APPEND,
        "Whether rows are added, or take the place of those with the same key.",
        read_by=_READ_BY,
    )
    table_key: str | None = setting(
        "table.key", optional_text("columns, by commas"), "", "Upsert: the columns that name a row.", read_by=_READ_BY
    )
    table_order: str | None = setting(
        "table.order",
        optional_text("columns, by commas"),
        "",
        "Upsert: of several rows of a micro-batch with one key, the greatest of these columns wins.",
        read_by=_READ_BY,
    )
    table_delete: str | None = setting(
        "table.delete",
        optional_text("a boolean column"),
        "",
        "Upsert: where this column is true the key is deleted. It is not a column of the table.",
        read_by=_READ_BY,
    )
    partition_by: str | None = setting(
        "partition.by",
        optional_text("columns, or year, month, day or hour of one, by commas"),
        "",
        "How the table is divided: `day(at), country`.",
        read_by=_READ_BY,
    )
    file_bytes: int = setting(
        "file.bytes", long(1 << 20), "134217728", "Tasks begin another file at this size.", read_by=_READ_BY
    )
    file_compression: str = setting(
        "file.compression",
        one_of("snappy", "zstd", "gzip", "lz4", "none"),
        "snappy",
        "How columns are compressed.",
        read_by=_READ_BY,
    )
    files_max: int = setting(
        "files.max",
        integer(1, 10_000),
        "32",
        "If tasks leave more files in a micro-batch, the driver puts small ones of one partition together.",
        read_by=_READ_BY,
    )
    compact_every: int = setting(
        "compact.every",
        integer(0, 1_000_000),
        "0",
        "Delta: put the small files of the table together after every so many micro-batches; 0 for never.",
        read_by=_READ_BY,
    )
    schema_evolution: str = setting(
        "schema.evolution",
        one_of("none", ADD_COLUMNS),
        "none",
        "Delta, Iceberg: whether columns that the table does not have are added to it.",
        read_by=_READ_BY,
    )
    txn_app_id: str | None = setting(
        "txnAppId",
        optional_text("a name"),
        "",
        "Batch jobs: who writes, for ever; with txnVersion it makes a write in foreachBatch exactly once.",
        read_by=_READ_BY,
    )
    txn_version: int | None = setting(
        "txnVersion",
        optional(long(0)),
        "",
        "Batch jobs: a number that grows from write to write. What was written under it is not written again.",
        read_by=_READ_BY,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """How rows take the place of others."""

    key: tuple[str, ...]
    order: tuple[str, ...]
    delete: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """In whose name a batch job writes; a query has its id and its micro-batch id instead."""

    writer_id: str
    number: int  # what was written under it before is not written again
    job: str  # no other job has the same


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What the options of a write say, with all defaults filled in."""

    table_format: str
    path: Path | None
    name: str | None
    catalog: Mapping[str, str]  # of Iceberg, without the prefix catalog.
    upsert: Upsert | None
    terms: tuple[Term, ...]  # how the table is divided
    file_bytes: int
    compression: str
    files_max: int
    compact_every: int
    adds_columns: bool
    checkpoint: Path | None  # None for a batch job
    writer: Writer | None  # None for a query

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> TableSettings:
        """The options of `writeStream`, or of a declared sink. Raises OptionRefused."""
        written = _read(options)
        if written.txn_app_id is not None or written.txn_version is not None:
            raise OptionRefused("txnAppId", "a query has its own id and micro-batch ids: leave it and txnVersion out")
        given = {name.lower(): value for name, value in options.items()}
        checkpoint = local_path(given.get("checkpointlocation"), "checkpointLocation")
        if checkpoint is None:
            raise OptionRefused(
                "checkpointLocation", "set it on the query itself: it says which micro-batch ends where"
            )
        return cls._from(written, options, checkpoint=checkpoint, writer=None)

    @classmethod
    def of_batch(cls, options: Mapping[str, str]) -> TableSettings:
        """The options of `write`. Raises OptionRefused."""
        written = _read(options)
        if (written.txn_app_id is None) != (written.txn_version is None):
            raise OptionRefused("txnAppId", "txnAppId and txnVersion belong together: set both, or none")
        job = real_runtime().randomness.uuid().hex
        writer = Writer(writer_id=written.txn_app_id or job, number=written.txn_version or 0, job=job)
        return cls._from(written, options, checkpoint=None, writer=writer)

    @classmethod
    def _from(
        cls, written: _Written, options: Mapping[str, str], *, checkpoint: Path | None, writer: Writer | None
    ) -> TableSettings:
        settings = cls(
            table_format=written.table_format or "",
            path=local_path(written.table_path, "table.path"),
            name=written.table_name,
            catalog=_catalog_properties(options),
            upsert=_upsert(written),
            terms=parse_terms(written.partition_by or ""),
            file_bytes=written.file_bytes,
            compression=written.file_compression,
            files_max=written.files_max,
            compact_every=written.compact_every,
            adds_columns=written.schema_evolution == ADD_COLUMNS,
            checkpoint=checkpoint,
            writer=writer,
        )
        _check(settings)
        return settings

    @property
    def called(self) -> str:
        """The table, in a sentence."""
        return f"{self.table_format} table {self.name or self.path}"

    @property
    def catalog_name(self) -> str:
        """Which of the catalogs of a catalog service; tables made under one name are not seen under another."""
        return self.catalog.get(_CATALOG_NAME, "default")


def option_names() -> list[str]:
    """All options but those of catalogs, for documentation and tests."""
    return [settings_of(_Written)[field.name].name for field in fields(_Written)]


def _read(options: Mapping[str, str]) -> _Written:
    own = {name: value for name, value in options.items() if not name.lower().startswith(_CATALOG)}
    return read_options(_Written, own, format_name="tidelog-table", also=("catalog.uri",), prefixes=())


def _catalog_properties(options: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    return {name.removeprefix(_CATALOG): given[name] for name in given if name.startswith(_CATALOG)}


def _upsert(written: _Written) -> Upsert | None:
    if written.table_mode == APPEND:
        for name, value in (("table.key", written.table_key), ("table.delete", written.table_delete)):
            if value is not None:
                raise OptionRefused(name, "it is for table.mode=upsert: set that, or leave it out")
        return None
    if written.table_key is None:
        raise OptionRefused("table.key", "table.mode=upsert wants to know which columns name a row")
    if written.table_order is None:
        raise OptionRefused(
            "table.order", "table.mode=upsert wants to know which row of a key is the last: offset, say"
        )
    return Upsert(key=_names(written.table_key), order=_names(written.table_order), delete=written.table_delete)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check(settings: TableSettings) -> None:
    if settings.table_format not in FORMATS:
        raise OptionRefused("table.format", f"it must be set; accepted is one of {', '.join(FORMATS)}")
    if settings.table_format == ICEBERG:
        _check_iceberg(settings)
        return
    if settings.path is None:
        raise OptionRefused("table.path", "it must name the directory of the table")
    if settings.name is not None or settings.catalog:
        raise OptionRefused("table.name", f"{settings.table_format} tables have no catalog: name table.path only")
    if settings.table_format == PARQUET:
        _check_parquet(settings)


def _check_parquet(settings: TableSettings) -> None:
    if settings.upsert is not None:
        raise OptionRefused("table.mode", "Parquet files can only be added to: take table.format delta or iceberg")
    if settings.adds_columns:
        raise OptionRefused("schema.evolution", "a directory of Parquet files has no schema of its own to be changed")
    if settings.compact_every:
        raise OptionRefused("compact.every", "readers of a directory of Parquet files would see rows twice meanwhile")
    hidden = [term for term in settings.terms if term.name.startswith(("_", "."))]
    if hidden:
        raise OptionRefused(
            "partition.by", f"readers pass over directories called {hidden[0].name}=: rename the column"
        )


def _check_iceberg(settings: TableSettings) -> None:
    if settings.path is not None:
        raise OptionRefused("table.path", "Iceberg tables are where their catalog puts them: name table.name instead")
    if settings.name is None or "." not in settings.name.strip("."):
        raise OptionRefused("table.name", "it must be set for an Iceberg table, as namespace.table")
    if not settings.catalog:
        raise OptionRefused(
            "catalog.uri", "describe the catalog as pyiceberg does, with catalog.type, catalog.uri, catalog.warehouse"
        )
    if settings.upsert is not None and any(term.unit for term in settings.terms):
        raise OptionRefused(
            "partition.by", "pyiceberg rewrites no files of partitions by time: name columns, or append"
        )
    if settings.compact_every:
        raise OptionRefused("compact.every", "pyiceberg puts no files together; files.max bounds them per micro-batch")
