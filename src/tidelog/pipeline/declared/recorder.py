"""What definition files declare, written down instead of sent to Spark: for runs that start the flows as ordinary streaming queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable, TemporaryView

from tidelog.pipeline.declared import sql_statements

if TYPE_CHECKING:
    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.pipelines.output import Output
    from pyspark.sql import DataFrame


class DefinitionRefused(Exception):
    """What is declared cannot be run always on; the message names it, and says what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSink:
    """Somewhere outside, by format and options."""

    name: str
    format: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """A streaming table."""

    name: str
    format: str | None
    partition_columns: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    has_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFlow:
    """A flow: what makes its rows, given a session, and where they go."""

    name: str
    target: str
    rows: Callable[[SqlSession], DataFrame]
    settings: Mapping[str, str]
    place: str  # file and line


class SqlSession:
    """As much of a session as the queries of SQL files need. `sql` is that of the session."""

    def __init__(self, sql: Callable[[str], DataFrame]) -> None:
        self.sql = sql


class Recorder(GraphElementRegistry):
    """Sinks, tables, temporary views and flows by name. What cannot run always on is refused when it is declared."""

    def __init__(self) -> None:
        self.sinks: dict[str, DeclaredSink] = {}
        self.tables: dict[str, DeclaredTable] = {}
        self.views: dict[str, DeclaredFlow] = {}
        self.flows: dict[str, DeclaredFlow] = {}
        self._view_names: set[str] = set()

    def register_output(self, output: Output) -> None:
        """A sink, a table or a view. Raises DefinitionRefused."""
        place = _place(output.source_code_location.filename, output.source_code_location.line_number)
        if isinstance(output, MaterializedView):
            raise _materialized_view(output.name, place)
        if output.name in self.sinks | self.tables or output.name in self._view_names:
            raise DefinitionRefused(f"{place}: {output.name} is declared twice")
        if isinstance(output, Sink):
            self.sinks[output.name] = DeclaredSink(name=output.name, format=output.format, options=output.options)
        elif isinstance(output, StreamingTable):
            self.tables[output.name] = DeclaredTable(
                name=output.name,
                format=output.format,
                partition_columns=tuple(output.partition_cols or ()),
                properties=dict(output.table_properties),
                has_schema=output.schema is not None,
            )
        elif isinstance(output, TemporaryView):
            self._view_names.add(output.name)
        else:
            raise DefinitionRefused(
                f"{place}: an always-on run does not know a {type(output).__name__} ({output.name})"
            )

    def register_flow(self, flow: Flow) -> None:
        """A flow; that of a temporary view is the view. Raises DefinitionRefused."""
        place = _place(flow.source_code_location.filename, flow.source_code_location.line_number)
        rows = flow.func
        self._add(
            DeclaredFlow(
                name=flow.name, target=flow.target, rows=lambda _: rows(), settings=flow.spark_conf, place=place
            )
        )

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Refused: it merges, which only a triggered run does."""
        place = _place(flow.source_code_location.filename, flow.source_code_location.line_number)
        raise DefinitionRefused(
            f"{place}: the flow {flow.name or flow.target} applies changes (create_auto_cdc_flow), which cannot run always on; "
            "leave --continuous out"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """The statements of a SQL file. Raises DefinitionRefused and StatementRefused."""
        for each in sql_statements.statements(sql_text, file_path):
            self._on_statement(each, _place(str(file_path), each.line))

    def check(self) -> None:
        """All has been declared: every flow must have somewhere to go. Raises DefinitionRefused."""
        targets = self.sinks.keys() | self.tables.keys()
        for flow in self.flows.values():
            if flow.target not in targets:
                there_are = f"there are {', '.join(sorted(targets))}" if targets else "none is declared"
                raise DefinitionRefused(
                    f"{flow.place}: the flow {flow.name} writes to {flow.target}, which is no sink and no table of this pipeline; {there_are}"
                )
        if not self.flows:
            raise DefinitionRefused("nothing is declared that could run: no flow, and no streaming table")

    def _on_statement(self, each: sql_statements.Statement, place: str) -> None:
        if each.kind == sql_statements.MATERIALIZED_VIEW:
            raise _materialized_view(each.name, place)
        if each.kind == sql_statements.STREAMING_TABLE:
            self.tables[each.name] = DeclaredTable(name=each.name, format=each.format)
        elif each.kind == sql_statements.TEMPORARY_VIEW:
            self._view_names.add(each.name)
        query = each.query
        if query is not None:
            target = each.target or each.name
            self._add(
                DeclaredFlow(
                    name=each.name, target=target, rows=lambda session: session.sql(query), settings={}, place=place
                )
            )

    def _add(self, flow: DeclaredFlow) -> None:
        kept = self.views if flow.target in self._view_names else self.flows
        if flow.name in kept:
            raise DefinitionRefused(
                f"{flow.place}: the flow {flow.name} is declared twice, first in {kept[flow.name].place}"
            )
        kept[flow.name] = flow


def _materialized_view(name: str, place: str) -> DefinitionRefused:
    return DefinitionRefused(
        f"{place}: {name} is a materialized view, which is computed anew by every triggered run and cannot run always on; "
        "leave --continuous out, or keep it in a pipeline of its own"
    )


def _place(file: str, line: int | None) -> str:
    return f"{file}, line {line}" if line else file
