"""Where a scenario plays: a simulated cluster whose brokers are called A, B, C, its topics, and what its clients are waiting for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from tidelog.controller import PartitionState, layout
from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.records import read_records
from tidelog.records.batch import read_header
from tidelog.records.control import read_marker
from tidelog.simulation.cluster import SimulatedBroker, SimulatedCluster
from tidelog.simulation.messages import Gate, Messages
from tidelog.simulation.scenario.clients import Clients
from tidelog.simulation.scenario.members import Members
from tidelog.simulation.scenario.tables import COLUMNS, Table

CLIENT: Final = "client"
WAIT_MS: Final = 60_000.0
_LOOK_EVERY_MS: Final = 1.0
_SETTLE_MS: Final = 10.0
_RECORD_BYTES_MAX: Final = 1 << 24


class CannotDo(Exception):
    """A command makes no sense, or what it waited for did not happen; the message says what and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSettings:
    """What the command `cluster` asks for."""

    names: tuple[str, ...]
    controller: str | None
    settings: Mapping[str, str]
    is_checked: bool


@dataclass(slots=True)
class Stage:
    """One run of one scenario. Leave its `exits` when it is over."""

    seed: int
    exits: ExitStack
    names: tuple[str, ...] = ()
    topics: list[str] = field(default_factory=list)
    shown: str | None = None
    first_line: int = 0  # of the trace, once everybody is up: how a cluster starts is no part of the story
    gates: dict[tuple[str, str], Gate] = field(default_factory=dict)
    on_mark: list[Callable[[str], None]] = field(default_factory=list)
    marks: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    _cluster: SimulatedCluster | None = None
    _clients: Clients | None = None
    _members: Members | None = None
    _messages: Messages | None = None

    def build(self, wanted: StageSettings) -> None:
        """Start the brokers and wait until they serve."""
        if self._cluster is not None:
            raise CannotDo("there is a cluster already")
        self.names = wanted.names
        first = None if wanted.controller is None else self.broker_id(wanted.controller)
        cluster = SimulatedCluster(self.seed, brokers=len(self.names), settings=wanted.settings, first=first)
        self._messages = cluster.world.fabric.watch_messages()
        if not wanted.is_checked:
            cluster.checkers.clear()
        self._cluster = self.exits.enter_context(cluster)
        self._clients = Clients(cluster)
        self._members = Members(cluster)
        self.until(lambda: all(each.is_ready for each in cluster.brokers.values()), "every broker is ready")
        self.first_line = len(cluster.world.trace.lines)

    @property
    def cluster(self) -> SimulatedCluster:
        """The cluster, which a command has made."""
        if self._cluster is None:
            raise CannotDo("there is no cluster yet; begin with: cluster A B ...")
        return self._cluster

    @property
    def clients(self) -> Clients:
        """Who produces and consumes."""
        if self._clients is None:
            raise CannotDo("there is no cluster yet; begin with: cluster A B ...")
        return self._clients

    @property
    def members(self) -> Members:
        """Who reads in groups."""
        if self._members is None:
            raise CannotDo("there is no cluster yet; begin with: cluster A B ...")
        return self._members

    @property
    def messages(self) -> Messages:
        """What is on the wire."""
        if self._messages is None:
            raise CannotDo("there is no cluster yet; begin with: cluster A B ...")
        return self._messages

    @property
    def has_cluster(self) -> bool:
        """Whether a command has made one."""
        return self._cluster is not None

    @property
    def now_ms(self) -> float:
        """Virtual time."""
        return self.cluster.world.loop.time() * 1000

    # Names.

    def broker_id(self, name: str) -> BrokerId:
        """The number behind a letter."""
        if name not in self.names:
            raise CannotDo(f"there is no broker {name}; there are {', '.join(self.names) or 'none'}")
        return self.names.index(name) + 1

    def broker(self, name: str) -> SimulatedBroker:
        """The broker behind a letter."""
        return self.cluster.brokers[self.broker_id(name)]

    def name(self, broker_id: BrokerId) -> str:
        """The letter of a number; nobody is -1."""
        return self.names[broker_id - 1] if 0 < broker_id <= len(self.names) else "nobody"

    def host(self, name: str) -> str:
        """The machine of a broker, or the clients'."""
        return CLIENT if name == CLIENT else self.broker(name).node.name

    def topic_partition(self, topic: str | None = None) -> TopicPartition:
        """Partition 0 of a topic; of the one shown in tables if none is named."""
        name = topic or self.shown
        if name is None:
            raise CannotDo("there is no topic yet; make one with: topic t on A B")
        if name not in self.topics:
            raise CannotDo(f"there is no topic {name}; there are {', '.join(self.topics) or 'none'}")
        return TopicPartition(name, 0)

    # Waiting.

    def until(self, is_so: Callable[[], bool], what: str, *, within_ms: float = WAIT_MS) -> None:
        """Let time pass until something holds; raises CannotDo when it does not in time."""
        deadline_ms = self.now_ms + within_ms
        while not is_so():
            if self.now_ms >= deadline_ms:
                raise CannotDo(f"not within {within_ms / 1000:g} s: {what}")
            self.cluster.world.run_for_ms(_LOOK_EVERY_MS)

    def settle(self) -> None:
        """Let everybody say what they do as a consequence, before the next thing is done to them."""
        if self.has_cluster:
            self.cluster.world.run_for_ms(_SETTLE_MS)

    def is_registered(self, broker_id: BrokerId) -> bool:
        """Whether the registry knows the broker as alive."""
        return self.cluster.store.tree.peek(layout.broker_path(broker_id)) is not None

    # Looking.

    def table(self, topic: str | None = None) -> Table | None:
        """Every replica of a topic's partition now; None before there is a topic."""
        if not self.has_cluster or (topic or self.shown) is None:
            return None
        topic_partition = self.topic_partition(topic)
        state = self.cluster.snapshot().states.get(topic_partition)
        if state is None:
            return None
        return Table(
            COLUMNS, tuple(self._row(broker_id, topic_partition, state) for broker_id in sorted(state.assignment))
        )

    def records(self, broker_id: BrokerId, topic_partition: TopicPartition) -> dict[Offset, bytes] | None:
        """Everything in a running broker's log, committed or not; None if it has not opened it."""
        partition = self._replica(broker_id, topic_partition)
        return None if partition is None else _contents(partition)

    def _replica(self, broker_id: BrokerId, topic_partition: TopicPartition) -> Partition | None:
        found = self.cluster.brokers[broker_id].partitions()
        return next((each for each in found if each.topic_partition == topic_partition), None)

    def _row(self, broker_id: BrokerId, topic_partition: TopicPartition, state: PartitionState) -> tuple[str, ...]:
        broker = self.cluster.brokers[broker_id]
        in_sync = "in" if broker_id in state.isr else "out"
        partition = self._replica(broker_id, topic_partition)
        if partition is None:
            role = "starting" if broker.node.is_running else "down"
            return (self.name(broker_id), role, "-", "-", "-", "-", "-", in_sync, "-")
        role = _role(partition, state)
        return (
            self.name(broker_id),
            f"{role}, paused" if broker.node.process.is_paused else role,
            str(partition.log.log_end_offset),
            str(partition.high_watermark),
            str(partition.last_stable_offset),
            self._remotes(partition),
            _epochs([(entry.leader_epoch, entry.start_offset) for entry in partition.log.epochs]),
            in_sync,
            " ".join(value.decode(errors="replace") for value in _contents(partition).values()) or "-",
        )

    def _remotes(self, partition: Partition) -> str:
        if not partition.is_leader:
            return "-"
        clock = self.cluster.client.clock
        told = partition.describe(clock.wall_ms(), clock.monotonic_ms()).remotes
        return (
            " ".join(
                f"{self.name(each.broker_id)}={'?' if each.log_end_offset < 0 else each.log_end_offset}"
                for each in told
            )
            or "-"
        )


def _role(partition: Partition, state: PartitionState) -> str:
    if not partition.is_leader:
        return "follower"
    is_current = (partition.broker_id, partition.leader_epoch) == (state.leader, state.leader_epoch)
    return "leader" if is_current else "old leader"


def _epochs(entries: Sequence[tuple[LeaderEpoch, Offset]]) -> str:
    return " ".join(f"{epoch}@{start}" for epoch, start in entries) or "-"


def _contents(partition: Partition) -> dict[Offset, bytes]:
    """Markers of transactions are shown as what they say."""
    log = partition.log
    found: dict[Offset, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
        header = read_header(data, 0)
        if header.is_control:
            found[header.base_offset] = f"[{read_marker(data).type.name.lower()}]".encode()
        else:
            records = read_records(data, max_bytes=_RECORD_BYTES_MAX)
            found |= {record.offset: record.value or b"" for record in records if record.offset >= offset}
        offset = header.next_offset
    return found
