"""An always-on run: the flows of the definition files as ordinary streaming queries, on the checkpoints that triggered runs have, too.

Spark's own runner knows triggered runs only. Names, checkpoints and query names are those that it would give, so that a pipeline may
change from one way to the other at any start: the id of a query is in its checkpoint, and with it the sink id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.declared import definitions, state
from tidelog.pipeline.declared.listening import FlowListener
from tidelog.pipeline.declared.names import Names
from tidelog.pipeline.declared.places import Places, latest_checkpoint
from tidelog.pipeline.declared.plan import RunPlan
from tidelog.pipeline.declared.recorder import DeclaredFlow, DefinitionRefused, Recorder, SqlSession
from tidelog.pipeline.declared.run_failed import RunFailed
from tidelog.pipeline.declared.spec import Spec
from tidelog.pipeline.declared.telling import Teller
from tidelog.pipeline.declared.troubles import definition_failure, plain_reason
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.pipeline.declared.connect import Sessions

_LOOK_AGAIN_S: Final = 0.5
_BEGUN_WITHIN_S: Final = 120.0
_STARTS_MAX: Final = 6
_STOP_WITHIN_S: Final = 12.0
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
_TOO_BUSY: Final = "failed to connect back"
_DEFAULT_FORMAT: Final = "parquet"


def run_continuous(
    sessions: Sessions, plan: RunPlan, spec: Spec, files: list[Path], teller: Teller, stopping: threading.Event
) -> None:
    """Run until told to stop, or until no flow is left that could. Raises DefinitionFailed, DefinitionRefused, RunFailed."""
    recorder = Recorder()
    definitions.load(spec, files, recorder, sessions.spark, nullcontext)
    recorder.check()
    teller.flows((flow.name, flow.target) for flow in recorder.flows.values())
    names = Names.of(spec)
    sessions.spark.streams.addListener(FlowListener(teller, real_runtime().clock, names.short))
    for name, value in sessions.modifiable({**spec.configuration, **plan.settings}).items():
        sessions.spark.conf.set(name, value)
    starter = Starter(sessions.spark, spec, recorder, names, stopping)
    running = starter.start_all()
    teller.ready()
    try:
        _watch(running, teller, stopping)
    finally:
        _stop_all(running, teller)


@dataclass(slots=True)
class Running:
    """A flow that was started, and how to start it once more."""

    flow: DeclaredFlow
    query: StreamingQuery
    is_over: bool = False


class Starter:
    """Starts flows as queries: views first, and whatever reads a table of the pipeline after the flow that makes it."""

    def __init__(
        self, spark: SparkSession, spec: Spec, recorder: Recorder, names: Names, stopping: threading.Event
    ) -> None:
        self._spark = spark
        self._spec = spec
        self._recorder = recorder
        self._names = names
        self._stopping = stopping
        self._places = Places(spec.storage)

    def start_all(self) -> list[Running]:
        """One at a time, each when the one before has begun: Spark stumbles over sources in Python that start together."""
        if self._spec.catalog is not None:
            self._spark.catalog.setCurrentCatalog(self._spec.catalog)
        if self._names.database is not None:
            self._spark.sql(f"CREATE DATABASE IF NOT EXISTS `{self._names.database}`")
            self._spark.catalog.setCurrentDatabase(self._names.database)
        self._resolve(list(self._recorder.views.values()), self._make_view)
        running: list[Running] = []
        self._resolve(list(self._recorder.flows.values()), lambda flow, rows: running.append(self._begun(flow, rows)))
        return running

    def _resolve(self, left: list[DeclaredFlow], done: Callable[[DeclaredFlow, DataFrame], None]) -> None:
        """Each as soon as all that it reads is there. Raises DefinitionRefused where that never comes."""
        while left and not self._stopping.is_set():
            missing: dict[str, str] = {}
            for flow in list(left):
                try:
                    rows = self._rows(flow)
                except _NotThereYet as not_yet:
                    missing[flow.name] = str(not_yet)
                    continue
                left.remove(flow)
                done(flow, rows)
            if len(missing) == len(left) and left:
                raise DefinitionRefused(f"{left[0].place}: {left[0].name}: {missing[left[0].name]}")

    def _rows(self, flow: DeclaredFlow) -> DataFrame:
        from pyspark.errors import AnalysisException
        from pyspark.pipelines.block_session_mutations import block_session_mutations

        try:
            with block_session_mutations():
                rows = flow.rows(SqlSession(self._spark.sql))
            rows.schema  # noqa: B018  # has it analysed, which Connect puts off
        except AnalysisException as error:
            if _NOT_FOUND in str(error):
                raise _NotThereYet(plain_reason(str(error))) from None
            raise DefinitionRefused(f"{flow.place}: {flow.name}: {plain_reason(str(error))}") from error
        except Exception as error:  # code that somebody else wrote
            raise DefinitionRefused(definition_failure(error, self._spec.directory)) from error
        return rows

    def _make_view(self, flow: DeclaredFlow, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(flow.name)

    def _begun(self, flow: DeclaredFlow, rows: DataFrame) -> Running:
        """Start a query and wait until it has its sources; once more where Spark's own Python process was too slow to start."""
        if not rows.isStreaming:
            raise DefinitionRefused(
                f"{flow.place}: the flow {flow.name} reads no stream, so it cannot run always on; use spark.readStream"
            )
        query = self._started(flow, rows)
        for _ in range(_STARTS_MAX - 1):
            if query.isActive or _TOO_BUSY not in str(query.exception()) or self._stopping.is_set():
                break
            query = self._started(flow, rows)
        return Running(flow=flow, query=query)

    def _started(self, flow: DeclaredFlow, rows: DataFrame) -> StreamingQuery:
        with self._settings(flow):
            query = self._start(flow, rows)
        self._until_begun(query)
        return query

    def _start(self, flow: DeclaredFlow, rows: DataFrame) -> StreamingQuery:
        is_sink = flow.target in self._recorder.sinks
        target = (flow.target,) if is_sink else self._names.of_table(flow.target)
        checkpoint = latest_checkpoint(self._places.checkpoints(target, flow.name.rpartition(".")[2]))
        name = self._names.query(flow, is_to_sink=is_sink)
        writer = rows.writeStream.queryName(name).option("checkpointLocation", checkpoint.as_uri())
        sink = self._recorder.sinks.get(flow.target)
        try:
            if sink is not None:
                return writer.format(sink.format).options(**sink.options).start()
            table = self._recorder.tables[flow.target]
            if table.partition_columns:
                writer = writer.partitionBy(*table.partition_columns)
            return writer.format(table.format or _DEFAULT_FORMAT).toTable(table.name)
        except Exception as error:
            raise RunFailed(f"the flow {flow.name} did not start: {plain_reason(str(error))}") from error

    def _until_begun(self, query: StreamingQuery) -> None:
        for _ in range(int(_BEGUN_WITHIN_S / _LOOK_AGAIN_S)):
            is_settled = not query.status["message"].startswith(("Initializing", "Terminated"))
            if not query.isActive or is_settled or self._stopping.wait(_LOOK_AGAIN_S):
                return

    @contextmanager
    def _settings(self, flow: DeclaredFlow) -> Iterator[None]:
        """Those of the flow, as long as it is being started: a query keeps what it finds then."""
        conf = self._spark.conf
        before: dict[str, str | None] = {name: conf.get(name, None) for name in flow.settings}
        for name, value in flow.settings.items():
            conf.set(name, value)
        yield
        for name, earlier in before.items():
            if earlier is None:
                conf.unset(name)
            else:
                conf.set(name, earlier)


class _NotThereYet(Exception):
    """A flow reads something that is not there, perhaps because another flow has yet to make it."""


def _watch(running: list[Running], teller: Teller, stopping: threading.Event) -> None:
    """Until told to stop. A flow that fails is told of, and the others go on; without any there is no point in going on."""
    for each in running:
        teller.flow(each.flow.name, state.RUNNING)
    while not stopping.wait(_LOOK_AGAIN_S):
        for each in running:
            if each.is_over or each.query.isActive:
                continue
            each.is_over = True
            teller.flow(each.flow.name, state.FAILED, plain_reason(str(each.query.exception() or "it ended")))
        if all(each.is_over for each in running):
            raise RunFailed("no flow is left that runs")


def _stop_all(running: list[Running], teller: Teller) -> None:
    """Side by side, for each waits for its micro-batch to be interrupted; what is interrupted is done again by the next run."""
    threads = [threading.Thread(target=each.query.stop, daemon=True) for each in running if not each.is_over]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_STOP_WITHIN_S)
    for each in running:
        if not each.is_over:
            teller.flow(each.flow.name, state.STOPPED)
