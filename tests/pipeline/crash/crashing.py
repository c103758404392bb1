"""The format "tidelog-crash": the sink of the product, with a point of a script before and after all that it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from tests.pipeline.crash.script import Script
from tidelog.client import AdoptedTransaction
from tidelog.pipeline.data_source import TidelogDataSource
from tidelog.pipeline.sink.at_least_once import AtLeastOnce
from tidelog.pipeline.sink.batch_commit import BatchCommit, Work
from tidelog.pipeline.sink.columns import check_columns
from tidelog.pipeline.sink.driver_client import DriverClient
from tidelog.pipeline.sink.identity import current_task
from tidelog.pipeline.sink.modes import Mode
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.two_phase import TwoPhaseCommit
from tidelog.pipeline.sink.writer import TidelogStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SCRIPT_OPTION: Final = "crash.script"

BATCH_STEPS: Final = (
    "take_over",
    "is_decided",
    "begin",
    "send_output",
    "send_marker",
    "send_source_offsets",
    "decide",
    "clean_up",
)
TWO_PHASE_STEPS: Final = (
    "take_over",
    "settle",
    "is_decided",
    "adopt",
    "write_manifest",
    "begin",
    "send_marker",
    "send_source_offsets",
    "decide",
    "finish",
    "forget",
    "clear",
    "clean_up",
)
_MIDDLES: Final = {"send_output", "finish"}
"""The steps that do several things, so that one can die between them."""


def _points(steps: Sequence[str]) -> tuple[str, ...]:
    between = [point for step in steps for point in ([f"in {step}"] if step in _MIDDLES else []) + [f"after {step}"]]
    return ("before commit", *between)


POINTS: Final = {
    "batch": _points(BATCH_STEPS),
    "2pc": _points(TWO_PHASE_STEPS),
    "at-least-once": ("before commit", "after commit"),
}
"""Where a driver can die, in the order of a commit. What comes after one step is what comes before the next."""


class CrashDataSource(TidelogDataSource):
    """The product's, but for the name and one option."""

    @classmethod
    def name(cls) -> str:
        return "tidelog-crash"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        del overwrite
        given = {name: value for name, value in self.options.items() if name.lower() != SCRIPT_OPTION}
        settings = SinkSettings.of_stream(given)
        check_columns(schema, settings)
        return CrashingWriter(settings, Script(Path(self.options[SCRIPT_OPTION])))


class CrashingWriter(TidelogStreamWriter):
    """The product's, with points around tasks and commits."""

    def __init__(self, settings: SinkSettings, script: Script) -> None:
        super().__init__(_MODES[settings.commit_mode](settings, script))
        self._script = script

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        _send_rows_as_they_come()
        name = f"task {current_task(is_streaming=True).partition}"
        rows = list(iterator)  # so that a zombie has them when it goes on, and Spark does not talk to it any more
        self._script.at(f"{name} begins")
        message = super().write(self._told(rows, name))
        self._script.at(f"{name} ends")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._script.at("before commit")
        super().commit(messages, batchId)
        self._script.at("after commit")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._script.at("before abort")
        super().abort(messages, batchId)

    def _told(self, rows: list[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
        """The rows, with a point before the first and one in the middle."""
        self._script.at(f"{name} has rows")
        for batch in rows:
            half = batch.num_rows // 2
            if half:
                yield batch.slice(0, half)
                self._script.at(f"{name} half done")
            yield batch.slice(half)


def _send_rows_as_they_come() -> None:
    """So few rows as tests have would else be gathered to one batch, and nothing could happen between its first and its last."""
    from tidelog.pipeline.sink import rows

    vars(rows)["GATHERED_BYTES"] = 1


class _Scripted:
    """A mode whose steps have a point before and after them."""

    steps: ClassVar[Sequence[str]] = ()
    _script: Script

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return partial(self._step, name, found) if name in type(self).steps else found

    def _step(self, name: str, step: Callable[..., Any], *args: Any) -> Any:
        self._script.at(f"before {name}")
        result = step(*args)
        self._script.at(f"after {name}")
        return result


class CrashingBatchCommit(_Scripted, BatchCommit):
    """Mode batch."""

    steps = BATCH_STEPS

    def __init__(self, settings: SinkSettings, script: Script) -> None:
        super().__init__(settings)
        self._script = script

    def send_output(self, client: DriverClient, work: Work) -> None:
        super().send_output(client, replace(work, files=work.files[:1]))
        self._script.at("in send_output")
        super().send_output(client, replace(work, files=work.files[1:]))


class CrashingTwoPhaseCommit(_Scripted, TwoPhaseCommit):
    """Mode 2pc."""

    steps = TWO_PHASE_STEPS

    def __init__(self, settings: SinkSettings, script: Script) -> None:
        super().__init__(settings)
        self._script = script

    def finish(self, client: DriverClient, adopted: Sequence[AdoptedTransaction]) -> None:
        super().finish(client, adopted[:1])
        self._script.at("in finish")
        super().finish(client, adopted[1:])


def _at_least_once(settings: SinkSettings, script: Script) -> AtLeastOnce:
    """Which has no steps: its commit has a point before and after it, as that of every mode."""
    del script
    return AtLeastOnce(settings)


_MODES: Final[dict[str, Callable[[SinkSettings, Script], Mode]]] = {
    "batch": CrashingBatchCommit,
    "2pc": CrashingTwoPhaseCommit,
    "at-least-once": _at_least_once,
}
