"""The format "tidelog-table-crash": the sink of the product, with a point of a script before and after all that its commit does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamWriter

from tests.pipeline.crash.script import Script
from tests.pipeline.tables.dying import COMMIT_STEPS
from tidelog.pipeline.sink.writer import TidelogStreamWriter
from tidelog.pipeline.tables.committing import TableCommit
from tidelog.pipeline.tables.data_source import TidelogTableDataSource
from tidelog.pipeline.tables.formats import Table, View
from tidelog.pipeline.tables.marker import Marker
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.parquet_table import ParquetView
from tidelog.pipeline.tables.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCRIPT_OPTION: Final = "crash.script"


class CrashTableDataSource(TidelogTableDataSource):
    """The product's, but for the name and one option."""

    @classmethod
    def name(cls) -> str:
        return "tidelog-table-crash"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        del overwrite
        given = {name: value for name, value in self.options.items() if name.lower() != SCRIPT_OPTION}
        settings = TableSettings.of_stream(given)
        mode = ScriptedCommit.prepared(settings, arrow_schema(schema, settings))
        mode.script = Script(Path(self.options[SCRIPT_OPTION]))  # type: ignore[attr-defined]
        return TidelogStreamWriter(mode)


class ScriptedCommit(TableCommit):
    """Every step has a point before and after it; for Parquet, the two parts of publishing, too."""

    script: Script

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return partial(self._step, name, found) if name in COMMIT_STEPS else found

    def look(self, table: Table, marker: Marker) -> View:
        view = super().look(table, marker)
        if isinstance(view, ParquetView):
            vars(view)["decide"] = partial(self._step, "decide", view.decide)
        return view

    def _step(self, name: str, step: Callable[..., Any], *args: Any) -> Any:
        self.script.at(f"before {name}")
        result = step(*args)
        self.script.at(f"after {name}")
        return result
