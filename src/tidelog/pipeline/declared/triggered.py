"""A triggered run: Spark's own runner of declared pipelines, given the definitions, followed to its end, and its events passed on."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.pipelines.output import Sink, TemporaryView
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

from tidelog.pipeline.declared import definitions
from tidelog.pipeline.declared.listening import FlowListener
from tidelog.pipeline.declared.names import Names
from tidelog.pipeline.declared.places import Places, next_checkpoint
from tidelog.pipeline.declared.plan import RunPlan
from tidelog.pipeline.declared.run_failed import RunFailed
from tidelog.pipeline.declared.spark_events import FlowEvent, RunFailure, understood
from tidelog.pipeline.declared.spec import Spec
from tidelog.pipeline.declared.telling import Teller
from tidelog.pipeline.declared.troubles import plain_reason
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.output import Output
    from pyspark.sql import SparkSession

    from tidelog.pipeline.declared.connect import Sessions

_LOOK_AGAIN_S: Final = 0.1
_INTERRUPTED_WITHIN_S: Final = 8.0
_EVENT: Final = "pipeline_event_result"


class NotingRegistry(SparkConnectGraphElementRegistry):
    """Spark's registry, which also knows afterwards what Python files declared."""

    def __init__(self, spark: SparkSession, graph_id: str) -> None:
        super().__init__(spark, graph_id)
        self.flows: list[tuple[str, str | None]] = []
        self.outputs: set[str] = set()
        self.sinks: set[str] = set()
        self.has_sql = False
        self._views: set[str] = set()

    def register_output(self, output: Output) -> None:
        """A sink, a table or a view."""
        (self._views if isinstance(output, TemporaryView) else self.outputs).add(output.name)
        if isinstance(output, Sink):
            self.sinks.add(output.name)
        super().register_output(output)

    def register_flow(self, flow: Flow) -> None:
        """A flow; that of a view is none that anybody would watch."""
        if flow.target not in self._views:
            self.flows.append((flow.name, flow.target))
        super().register_flow(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Spark reads it by itself."""
        self.has_sql = True
        super().register_sql(sql_text, file_path)


def run_triggered(  # each is one thing that a run is given
    sessions: Sessions, plan: RunPlan, spec: Spec, files: list[Path], teller: Teller, stopping: threading.Event
) -> None:
    """Run until all flows have done what there was to do. Raises DefinitionFailed and RunFailed."""
    from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

    spark, names = sessions.spark, Names.of(spec)
    spark.streams.addListener(FlowListener(teller, real_runtime().clock, names.short))
    settings = sessions.modifiable({**spec.configuration, **plan.settings})
    graph_id = create_dataflow_graph(
        spark, default_catalog=spec.catalog, default_database=spec.database, sql_conf=settings
    )
    registry = NotingRegistry(spark, graph_id)
    definitions.load(
        spec,
        files,
        registry,
        spark,
        lambda: add_pipeline_analysis_context(spark=spark, dataflow_graph_id=graph_id, flow_name=None),
    )
    check_refreshed(plan.refreshed, registry.outputs, has_sql=registry.has_sql)
    sinks = registry.sinks if plan.refreshes_all else registry.sinks.intersection(plan.refreshed)
    begin_anew(Places(spec.storage), [flow for flow in registry.flows if flow[1] in sinks])
    teller.flows(registry.flows)
    teller.ready()
    tables = replace(plan, refreshed=tuple(name for name in plan.refreshed if name not in sinks))
    _Following(sessions, tables, spec, teller).follow(graph_id, stopping)


def begin_anew(places: Places, flows: Iterable[tuple[str, str | None]]) -> None:
    """Give each flow its next checkpoint: Spark's own full refresh knows tables, and passes over sinks."""
    for flow, sink in flows:
        if sink is not None:
            versions = places.checkpoints((sink,), flow.rpartition(".")[2])
            if versions.is_dir():
                next_checkpoint(versions).mkdir()


def check_refreshed(refreshed: Collection[str], outputs: Collection[str], *, has_sql: bool) -> None:
    """Whether what is to begin anew is there at all; of SQL only Spark knows what it declares. Raises RunFailed."""
    unknown = [name for name in refreshed if name not in outputs]
    if unknown and not has_sql:
        there_are = f"there are {', '.join(sorted(outputs))}" if outputs else "it has none"
        raise RunFailed(f"--full-refresh: this pipeline writes to no table or sink {', '.join(unknown)}; {there_are}")


class _Following:
    """Follows a run in a thread, for Spark's answer is a stream that only its end interrupts."""

    def __init__(self, sessions: Sessions, plan: RunPlan, spec: Spec, teller: Teller) -> None:
        self._spark = sessions.spark
        self._plan = plan
        self._spec = spec
        self._teller = teller
        self._names = Names.of(spec)
        self._failure: str | None = None

    def follow(self, graph_id: str, stopping: threading.Event) -> None:
        """To the end of the run, or to that of our patience with it. Raises RunFailed."""
        thread = threading.Thread(target=self._follow, args=(graph_id, stopping), daemon=True)
        thread.start()
        while thread.is_alive() and not stopping.wait(_LOOK_AGAIN_S):
            pass
        if stopping.is_set():
            self._spark.interruptAll()
            thread.join(_INTERRUPTED_WITHIN_S)
            return
        thread.join()
        if self._failure is not None:
            raise RunFailed(self._failure)

    def _follow(self, graph_id: str, stopping: threading.Event) -> None:
        try:
            for message in self._messages(graph_id):
                self._on_message(message)
        except Exception as error:  # noqa: BLE001  # whatever ends the stream ends the run
            traceback.print_exc()
            if not stopping.is_set():
                self._failure = self._failure or plain_reason(str(error))

    def _messages(self, graph_id: str) -> Iterator[str]:
        from pyspark.pipelines.spark_connect_pipeline import start_run

        results: Iterator[Mapping[str, Any]] = start_run(
            self._spark,
            graph_id,
            full_refresh=list(self._plan.refreshed),
            full_refresh_all=self._plan.refreshes_all,
            refresh=[],
            dry=False,
            storage=self._spec.storage_uri,
        )
        for result in results:
            if _EVENT in result:
                yield str(result[_EVENT].event.message)

    def _on_message(self, message: str) -> None:
        print(message, flush=True)  # noqa: T201  # to the log
        match understood(message):
            case FlowEvent() as event:
                self._teller.flow(self._names.short(event.name), event.state, event.reason)
            case RunFailure() as failure:
                self._failure = failure.reason
            case None:
                pass
