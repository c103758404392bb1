"""Drivers of mode 2pc without Spark: processes of their own that die, or wait, at a point of a commit; tasks run in the test itself."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.hand import Hand
from tests.pipeline.sink.looking import committed, open_transactions
from tidelog.client import AdoptedTransaction, PreparedTransaction, TransactionKeeper
from tidelog.client.transactions.conversation import Conversation
from tidelog.pipeline.sink.driver_client import DriverClient
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.two_phase import PreparedMessage, TwoPhaseCommit

if TYPE_CHECKING:
    import pyarrow as pa

STEPS: Final = (
    "take_over",
    "settle",
    "is_decided",
    "adopt",
    "write_manifest",
    "begin",
    "send_marker",
    "send_source_offsets",
    "decide",
    "confirm",
    "finish",
    "forget",
    "clear",
)
POINTS: Final = tuple(
    f"{when} {step}" for step in STEPS for when in ("before", "in", "after") if when != "in" or step == "finish"
)
"""Between any two steps, and in the middle of those that have a middle."""

_TELLING: Final = frozenset({"after decide"})


def swept(points: Iterable[str]) -> list[Any]:
    """Points for a test: the one that tells most always, the others when all is proven."""
    return [pytest.param(each, marks=() if each in _TELLING else pytest.mark.proof) for each in points]


DECIDED_AT: Final = POINTS.index("after decide")
"""From this point on a micro-batch is decided."""

PATIENCE_S: Final = 100.0
_GO_ON: Final = "go on"

_processes: Final = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])  # what drivers need is imported once


@dataclass(frozen=True)
class Query:
    """A query as its sink sees it: a checkpoint, in which Spark has written what a micro-batch is to read."""

    hand: Hand
    topic: str
    checkpoint: Path
    partition_count: int = 2
    options: tuple[tuple[str, str], ...] = ()
    query_id: str = "a query"

    @property
    def sink_id(self) -> str:
        return f"sink-of-{self.topic}"

    @property
    def settings(self) -> SinkSettings:
        return SinkSettings.of_stream(
            {
                "kafka.bootstrap.servers": self.hand.bootstrap,
                "kafka.retry.backoff.ms": "20",
                "topic": self.topic,
                "sink.id": self.sink_id,
                "commit.mode": "2pc",
                "checkpointLocation": str(self.checkpoint),
                **dict(self.options),
            }
        )

    def plan(self, micro_batch_id: int) -> None:
        """What Spark writes before a micro-batch runs."""
        offsets = self.checkpoint / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))
        position = {self.topic: {"0": micro_batch_id + 1}, "@cluster": self.hand.cluster_id()}
        (offsets / str(micro_batch_id)).write_text(f"v1\n{{}}\n{json.dumps(position)}\n")

    def task(self, micro_batch_id: int, partition: int, *, run: str, attempt: int = 0) -> Task:
        return Task(
            partition=partition,
            attempt=attempt,
            attempt_id=attempt,
            query_id=self.query_id,
            run_id=run,
            micro_batch_id=micro_batch_id,
        )

    def write(self, micro_batch_id: int, *, run: str, attempt: int = 0) -> list[PreparedMessage]:
        """All tasks of a micro-batch, one after the other."""
        self.plan(micro_batch_id)
        return [
            TwoPhaseCommit(self.settings).task_write(
                rows(micro_batch_id, partition), self.task(micro_batch_id, partition, run=run, attempt=attempt)
            )
            for partition in range(self.partition_count)
        ]

    def manifests(self) -> list[str]:
        directory = self.checkpoint / "sink-manifest"
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []

    def open_ids(self) -> list[str]:
        """Under which ids of this sink a transaction has begun, and readers do not know yet how it ends."""
        listed = open_transactions(self.hand.bootstrap)
        return [row.transactional_id for row in listed if row.transactional_id.startswith(self.sink_id)]

    def committed_values(self) -> list[bytes]:
        """What readers of committed records get, once they need not wait for anybody any more."""
        eventually(lambda: not self.open_ids(), f"no transaction of {self.sink_id} is open")
        eventually(
            lambda: self.hand.end_offsets(self.topic) == self.hand.end_offsets(self.topic, committed_only=False),
            f"readers of {self.topic} wait for nobody",
        )
        return sorted(record.value or b"" for record in self.hand.read(self.topic))

    def position(self) -> int:
        """The source offset that the consumer group of the query has committed; -1 for none."""
        offsets = committed(self.hand.bootstrap, self.sink_id)
        return next(iter(offsets.values()), -1)


def values_of(micro_batch_id: int, partition: int) -> list[bytes]:
    return [f"{micro_batch_id}-{partition}-{number}".encode() for number in range(3)]


def rows(micro_batch_id: int, partition: int) -> Iterator[pa.RecordBatch]:
    """The rows of one task."""
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"value": pa.array(values_of(micro_batch_id, partition), pa.binary())})


def expected(micro_batch_ids: Iterable[int], partition_count: int = 2) -> list[bytes]:
    return sorted(
        value for each in micro_batch_ids for part in range(partition_count) for value in values_of(each, part)
    )


class Driver:
    """A process that commits, or aborts, one micro-batch. Use it as a context manager: leaving it ends the process."""

    def __init__(
        self,
        query: Query | SinkSettings,
        call: str,
        messages: Sequence[PreparedMessage | None],
        micro_batch_id: int | None,
        *,
        dies: str | None = None,
        waits: str | None = None,
    ) -> None:
        self._ours, theirs = _processes.Pipe()
        settings = query.settings if isinstance(query, Query) else query
        work = (settings, call, list(messages), micro_batch_id)
        self._process = _processes.Process(target=_drive, args=(*work, _Script(dies, waits), theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.join(PATIENCE_S)
        self._ours.close()

    def arrived(self) -> Driver:
        """Wait until it is where it waits."""
        assert self._heard() == "arrived"
        return self

    def go_on(self) -> Driver:
        self._ours.send(_GO_ON)
        return self

    def ended(self) -> str:
        """How it ended: "done", "died", or the name and text of what was raised."""
        heard = self._heard()
        self._process.join(PATIENCE_S)
        return heard

    def _heard(self) -> str:
        assert self._ours.poll(PATIENCE_S), "the driver says nothing"
        try:
            return str(self._ours.recv())
        except EOFError:
            self._process.join(PATIENCE_S)
            return "died" if self._process.exitcode == -signal.SIGKILL else f"ended with {self._process.exitcode}"


def drive(
    query: Query | SinkSettings,
    call: str,
    messages: Sequence[PreparedMessage | None],
    micro_batch_id: int | None,
    **script: Any,
) -> str:
    """Let a driver do its work from beginning to end."""
    with Driver(query, call, messages, micro_batch_id, **script) as driver:
        return driver.ended()


@dataclass(frozen=True)
class _Script:
    dies: str | None
    waits: str | None

    def at(self, connection: Connection, point: str) -> None:
        if point == self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if point == self.waits:
            connection.send("arrived")
            assert connection.recv() == _GO_ON


def _drive(
    settings: SinkSettings,
    call: str,
    messages: list[PreparedMessage | None],
    micro_batch_id: int | None,
    script: _Script,
    connection: Connection,
) -> None:
    mode = ScriptedCommit(settings, partial(script.at, connection))
    try:
        getattr(mode, call)(messages, micro_batch_id)
    except Exception as error:  # noqa: BLE001
        connection.send(f"{type(error).__name__}: {error}")
    else:
        connection.send("done")


class ScriptedCommit(TwoPhaseCommit):
    """The product's own steps, with a call before and after each."""

    def __init__(self, settings: SinkSettings, at: Callable[[str], None]) -> None:
        super().__init__(settings)
        self.at = at

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return partial(self._step, name, found) if name in STEPS else found

    def finish(self, client: DriverClient, adopted: Sequence[AdoptedTransaction]) -> None:
        super().finish(client, adopted[:1])
        self.at("in finish")
        super().finish(client, adopted[1:])

    def _step(self, name: str, step: Callable[..., Any], *args: Any) -> Any:
        self.at(f"before {name}")
        result = step(*args)
        self.at(f"after {name}")
        return result

    def _keeper(self, client: DriverClient) -> TransactionKeeper:
        return _ScriptedKeeper(client, self.at)


class _ScriptedKeeper(TransactionKeeper):
    """The product's own, with a call around what it asks of the brokers."""

    def __init__(self, client: DriverClient, at: Callable[[str], None]) -> None:
        super().__init__(client.cluster, client.config, client.runtime)
        self._at = at

    async def adopt(self, transactional_ids: Iterable[str]) -> dict[str, AdoptedTransaction | None]:
        adopted = await super().adopt(transactional_ids)
        self._at("adopted")
        return adopted

    async def _adopt(self, conversation: Conversation, transactional_id: str) -> AdoptedTransaction | None:
        adopted = await super()._adopt(conversation, transactional_id)
        self._at("adopted one")
        return adopted

    async def end(
        self, adopted: Iterable[AdoptedTransaction], *, is_committed: bool
    ) -> tuple[PreparedTransaction, ...]:
        self._at("about to commit" if is_committed else "about to abort")
        return await super().end(adopted, is_committed=is_committed)
