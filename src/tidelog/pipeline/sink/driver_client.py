"""The driver's clients, kept between micro-batches: Spark commits all of them in one process, or in a few that live on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from tidelog.client import Admin, Cluster, FoundOffset, GroupDescription, Producer, TopicMetadata
from tidelog.client.bridge import Bridge
from tidelog.client.offsets import LATEST, OffsetLookup
from tidelog.model import IsolationLevel, Offset, TopicPartition
from tidelog.pipeline.sink.kept import Kept
from tidelog.pipeline.sink.ledger import FoundMarkers, read_markers
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.topics import FRESH_MS, unless_missing
from tidelog.pipeline.source.contact import Contact
from tidelog.runtime import Runtime
from tidelog.runtime.real import real_runtime

T = TypeVar("T")

_KEPT_MAX: Final = 16
_GOODBYE_MS: Final = 2_000
_ROUNDS: Final = 2


class DriverClient:
    """A connection to the cluster under one sink id, and the transactional producer of that name, once it was taken over.

    Raises BrokersSilent when it is made and nobody answers. `found` are the markers that were read last: whoever holds the transactional
    id without interruption is the only one to change them. `run_id` is the run of a query that it serves, where it is one.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self.config = settings.client_config()
        self.runtime: Runtime = real_runtime()
        self.found: FoundMarkers | None = None
        self.producer: Producer | None = None
        self.run_id: str | None = None
        self._began_ms: float | None = None
        self._open_ms = 0.0
        self._settings = settings
        self._counts: dict[str, int] = {}
        self._counted_ms = 0.0
        self._free_groups: set[str] = set()
        self._cluster_id: str | None = None
        Contact(self.config).close()  # says in plain words what is wrong where nobody answers
        self._bridge = Bridge()
        try:
            self.cluster = self._bridge.hold(Cluster(self.config, self.runtime))
        except BaseException:
            self._bridge.close()
            raise
        self.admin = Admin(self.cluster, self.config, self.runtime)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns, or raises; it bounds itself."""
        return self._bridge.run(work)

    def write(self, work: Coroutine[Any, Any, T], topics: Collection[str]) -> T:
        """What `work`, which writes to these topics, returns, or raises. Raises TopicMissing where one of them is deleted meanwhile."""
        return self.run(unless_missing(work, self.cluster, self.config, self.runtime, topics))

    def take_over(self) -> Producer:
        """Become the only one who writes under the sink id: whoever did is fenced, and what it left open is aborted.

        Raises what `Producer.init_transactions` does.
        """
        config = self._settings.producer_config(transactional_id=self._settings.sink_id)
        producer = self._bridge.hold(leaving_soon(Producer(self.cluster, config, self.runtime)))
        self.run(producer.init_transactions())
        self.producer = producer
        return producer

    def on_begun(self) -> None:
        """A transaction begins now."""
        self._began_ms = self.runtime.clock.monotonic_ms()

    def on_decided(self) -> None:
        """It has ended well."""
        self._began_ms = None

    @property
    def open_ms(self) -> float:
        """For how long the transaction that is not decided has been open, or was when this was closed; 0 where there is none."""
        return self._open_ms if self._began_ms is None else self.runtime.clock.monotonic_ms() - self._began_ms

    def read_markers(self) -> FoundMarkers:
        """What is marked as decided. Raises RequestRefused."""
        self.found = self.run(read_markers(self.admin, self.config, self.runtime, self._settings.sink_id))
        return self.found

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has, 0 for one that is not in this cluster; as it was some seconds ago."""
        wanted = set(topics)
        now_ms = self.runtime.clock.monotonic_ms()
        if not wanted <= self._counts.keys() or now_ms - self._counted_ms >= FRESH_MS:
            described = self.run(self.admin.describe_topics(sorted(wanted | self._counts.keys())))
            self._counts = {
                name: len(found.partitions) if isinstance(found, TopicMetadata) else 0
                for name, found in described.items()
            }
            self._counted_ms = now_ms
        return {topic: self._counts.get(topic, 0) for topic in wanted}

    def cluster_id(self) -> str | None:
        """The id of the cluster, if it has one."""
        if self._cluster_id is None:
            self._cluster_id = self.run(self.admin.describe_cluster()).cluster_id
        return self._cluster_id

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Where logs end by now, of those partitions whose leaders tell at once."""
        lookup = OffsetLookup(self.cluster, self.config, self.runtime, IsolationLevel.READ_UNCOMMITTED)
        return self.run(_log_ends(lookup, frozenset(partitions)))

    def has_members(self, group: str) -> bool:
        """Whether somebody consumes in the name of a group; asked until nobody does, and then no more."""
        if group in self._free_groups:
            return False
        found = self.run(self.admin.groups.describe_groups([group]))[group]
        if isinstance(found, GroupDescription) and found.members:
            return True
        self._free_groups.add(group)
        return False

    def close(self) -> None:
        """Let go of everything, within seconds; a transaction that may still be aborted is."""
        self._open_ms, self._began_ms = self.open_ms, None  # before a goodbye that may take a while
        with suppress(TimeoutError):
            self._bridge.close()


async def _log_ends(lookup: OffsetLookup, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, Offset]:
    ends: dict[TopicPartition, Offset] = {}
    for _ in range(_ROUNDS):  # the second one for leaders that have changed
        left = partitions - ends.keys()
        answers = await lookup.ask(dict.fromkeys(left, LATEST)) if left else {}
        ends |= {key: answer.offset for key, answer in answers.items() if isinstance(answer, FoundOffset)}
    return ends


@asynccontextmanager
async def leaving_soon(producer: Producer) -> AsyncIterator[Producer]:
    """A producer that does not wait long for brokers when it is closed: what it leaves open is ended by whoever comes next."""
    async with producer:
        try:
            yield producer
        finally:
            await producer.close(timeout_ms=_GOODBYE_MS)


_kept: Final[Kept[tuple[str, tuple[tuple[str, str], ...]], DriverClient]] = Kept(_KEPT_MAX)
"""By sink id and settings."""


def driver_client(settings: SinkSettings, *, run_id: str | None = None) -> DriverClient:
    """The client that this process has for a sink, made if need be, for a run of a query if one is told.

    What has served an earlier run knows old markers: since then another process of that run may have committed, and died.
    """
    client = _kept.of(_key_of(settings), lambda: DriverClient(settings))
    if run_id is not None and client.run_id not in {None, run_id}:
        forget_driver_client(settings)
        client = _kept.of(_key_of(settings), lambda: DriverClient(settings))
    client.run_id = run_id or client.run_id
    return client


def forget_driver_client(settings: SinkSettings) -> None:
    """Close the client of a sink, after trouble; the next one begins anew."""
    _kept.forget(_key_of(settings))


def _key_of(settings: SinkSettings) -> tuple[str, tuple[tuple[str, str], ...]]:
    return settings.sink_id, tuple(sorted(settings.properties.items()))
