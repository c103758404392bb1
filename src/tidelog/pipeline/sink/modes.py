"""What a commit mode of the sink offers, and which modes there are.

Spark makes the writer twice for every micro-batch: one copy is pickled and sent to the tasks, the other one gets `commit` or `abort` in a
process of the driver that lives on between micro-batches. So a mode is made of settings only, does nothing when it is made, can be
pickled, and keeps what is to survive (connections, producers) outside of itself, under the sink id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.pipeline.sink.options import SinkSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Who writes: one attempt at one partition of a job. A batch job has no query id, run id and micro-batch id."""

    partition: int
    attempt: int  # 0 for the first one
    attempt_id: int  # no other attempt of this Spark application has the same
    query_id: str | None  # the same for as long as there is the checkpoint
    run_id: str | None  # another one after every start of the query
    micro_batch_id: int | None


class Mode(Protocol):
    """One way to bring rows to topics. Its class is called with SinkSettings alone."""

    def task_write(self, rows: Iterator[pa.RecordBatch], task: Task) -> WriterCommitMessage:
        """Runs in a task: take the rows as far as they may go before the driver decides; returns what `commit` must know.

        Other attempts at the same partition may run before, after or at the same time, and most of them are never committed or aborted:
        what an attempt does must stay invisible until its message is committed. The message is a small dataclass that can be pickled.
        """
        ...

    def commit(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Runs in the driver when every partition has one successful attempt: make their rows visible, once.

        The same micro-batch may have been committed before (a replay, with other messages): then nothing is written. Failures of brokers
        that may pass are retried here, within bounds: Spark answers an exception with `abort` of the same messages and ends the query.
        """
        ...

    def abort(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Runs in the driver when a task failed for good, or when `commit` raised: clean up, but never undo what is decided.

        A partition without a successful attempt has None in place of its message.
        """
        ...


_CLASSES: Final = {
    "batch": ("tidelog.pipeline.sink.batch_commit", "BatchCommit"),
    "2pc": ("tidelog.pipeline.sink.two_phase", "TwoPhaseCommit"),
    "at-least-once": ("tidelog.pipeline.sink.at_least_once", "AtLeastOnce"),
}

MODES: Final = tuple(_CLASSES)
"""The values of the option commit.mode."""


def mode_of(settings: SinkSettings) -> Mode:
    """The mode that the settings ask for. Only its own module is imported."""
    module, name = _CLASSES[settings.commit_mode]
    mode: Mode = getattr(import_module(module), name)(settings)
    return mode
