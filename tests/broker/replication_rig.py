"""Brokers without a control plane, in a simulated world: logs, fetchers, ISR changes and the handlers between them are the real ones.

The test is the controller: it tells roles, and decides on ISR changes. So it can also tell one broker and not another, or tell it late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID

from tests.broker.transaction_rig import ScriptedCoordinator
from tidelog.broker.fetch_sessions import FetchSessionCache
from tidelog.broker.fetchers import ReplicaFetchers
from tidelog.broker.handlers import (
    api_versions,
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from tidelog.broker.hosting import Told
from tidelog.broker.isr_changes import IsrSurroundings, LeaderIsrChanges
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.node import Node
from tidelog.broker.replica_fetcher import FetcherSurroundings
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.broker.replica_selector import ReplicaSelector
from tidelog.broker.replication_quota import ReplicationQuotas
from tidelog.broker.transaction_membership import TransactionMembership
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.config import BrokerConfig, Listener, LogConfig
from tidelog.controller import BrokerImage, PartitionState, TopicImage
from tidelog.model import Acks, BrokerId, ErrorCode, TopicPartition
from tidelog.partition import Leadership, Partition
from tidelog.records import RecordBatchBuilder
from tidelog.runtime import Address, Runtime
from tidelog.server import ConnectionLimits as ServerLimits
from tidelog.server import Dispatcher, Guard, GuardLimits
from tidelog.server import Listener as BoundListener
from tidelog.simulation.world import World
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)

T = TypeVar("T")

TOPIC_ID = UUID(int=7)
T0 = TopicPartition("t", 0)
BROKERS_ONLY = "REPLICATION"
CLIENTS = "PLAINTEXT"
PORTS = {CLIENTS: 9092, BROKERS_ONLY: 9093}
MODULES = (api_versions, delete_records, fetch, list_offsets, offset_for_leader_epoch, produce, write_txn_markers)


async def virtual_ms(duration_ms: float) -> None:
    """Let time pass in the simulated world, which takes none."""
    await asyncio.sleep(duration_ms / 1000)  # noqa: TID251  # on the simulated loop


def batch(*values: bytes) -> bytearray:
    """A batch as a producer sends it."""
    builder = RecordBatchBuilder()
    for value in values or (b"v",):
        builder.append(timestamp_ms=1_000, key=None, value=value)
    return builder.build()


class _Undoubted:
    """There is no registry here that could say that somebody else leads."""

    async def doubted(self, _partitions: Sequence[Partition], *, patience_s: float) -> set[TopicPartition]:
        assert patience_s > 0
        return set()


class RigBroker:
    """One broker of the rig."""

    def __init__(self, broker_id: BrokerId, runtime: Runtime, rig: Rig, settings: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.runtime = runtime
        host = f"broker-{broker_id}"
        self.config = BrokerConfig.from_properties(
            {"node.id": str(broker_id), "listeners": f"{CLIENTS}://{host}:9092", "log.dirs": "/data", **settings}
        )
        self.metadata = MetadataCache(BROKERS_ONLY)
        self.replicas = ReplicaManager(self.config, runtime)
        self.roles = ReplicaRoles(self.config, runtime.clock, self.replicas, is_live=lambda one: one in rig.live)
        self.quota = ReplicationQuotas(broker_id, lambda: self.config)
        self.fetchers = ReplicaFetchers(
            FetcherSurroundings(
                config=self.config,
                runtime=runtime,
                replicas=self.replicas,
                quotas=self.quota,
                address_of=lambda one: Address(rig.hosts[one], PORTS[BROKERS_ONLY]),
                broker_epoch=lambda: rig.epochs[broker_id],
            )
        )
        self.isr_changes = LeaderIsrChanges(
            IsrSurroundings(
                config=self.config,
                runtime=runtime,
                replicas=self.replicas,
                ask_controller=rig.decide,
                broker_epoch=lambda: rig.epochs[broker_id],
            )
        )
        self.replicas.replicate_with(self.fetchers, self.isr_changes)
        self.fetch_sessions = FetchSessionCache(slots_max=100)
        self.selector = ReplicaSelector(self.config, lambda: rig.racks)
        self.membership = TransactionMembership(LiveConfig(self.config), runtime, rig.coordinator, rig.coordinator)
        self.node = cast("Node", self._node())

    def _node(self) -> SimpleNamespace:
        """What handlers of the data plane use of a node."""
        return SimpleNamespace(
            runtime=self.runtime,
            config=self.config,
            metadata=self.metadata,
            replicas=self.replicas,
            quota=self.quota,
            selector=self.selector,
            fetch_sessions=self.fetch_sessions,
            membership=self.membership,
            leaderships=_Undoubted(),
            is_inter_broker=lambda listener: listener == BROKERS_ONLY,
        )

    @property
    def partition(self) -> Partition:
        """Its replica of the first partition."""
        return self.replicas.partition(T0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve and replicate."""
        async with AsyncExitStack() as parts:
            await parts.enter_async_context(self.replicas.running("cluster"))
            for name, port in PORTS.items():
                await parts.enter_async_context(self._listener(name, port))
            await parts.enter_async_context(self.fetchers.running())
            await parts.enter_async_context(self.isr_changes.running())
            parts.callback(self.replicas.dismiss)
            yield

    @asynccontextmanager
    async def _listener(self, name: str, port: int) -> AsyncIterator[None]:
        guard = Guard(
            GuardLimits(
                connections_max=1000, connections_max_per_address=1000, request_bytes_max=1 << 30, requests_max=1000
            ),
            self.runtime,
        )
        limits = ServerLimits(request_bytes_max=100 << 20, recordless_request_bytes_max=16 << 20, idle_ms_max=600_000)
        handlers: dict[ApiKey, Any] = {module.API: partial(module.handle, self.node) for module in MODULES}
        dispatcher = Dispatcher(handlers, self.runtime.metrics, self.runtime.clock)
        address = Address(f"broker-{self.broker_id}", port)
        listener = BoundListener(name, address, dispatcher, limits, self.runtime, guard)
        async with listener.running():
            listener.serve()
            yield

    def produce(self, *values: bytes, topic_partition: TopicPartition = T0, acks: int = 1) -> int:
        """Append as a producer would; the base offset."""
        _, appended = self.replicas.append(topic_partition, batch(*values), acks=Acks(acks), produce_version=9)
        return appended.base_offset

    def values(self, topic_partition: TopicPartition = T0) -> bytes:
        """All bytes of its log."""
        log = self.replicas.partition(topic_partition).log
        return bytes(
            log.read(log.log_start_offset, max_bytes=1 << 30, end_offset=log.log_end_offset)
            if log.log_end_offset > log.log_start_offset
            else b""
        )


class Rig:
    """The world, its brokers, and the decisions of the test."""

    def __init__(self, seed: int, brokers: int, settings: Mapping[str, str]) -> None:
        self.world = World(seed)
        self.live: set[BrokerId] = set(range(1, brokers + 1))
        self.epochs = {broker_id: 100 + broker_id for broker_id in self.live}
        self.hosts = {broker_id: f"broker-{broker_id}" for broker_id in self.live}
        self.racks: dict[BrokerId, str | None] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.coordinator = ScriptedCoordinator()
        self.verdicts: list[ErrorCode] = []
        """What to answer to the next proposals; they are granted when nothing is left in here."""
        self.proposals: list[AlterPartitionRequest] = []
        self.tells_before_it_answers = False  # the leader hears of a granted proposal by LeaderAndIsr first
        self._settings = settings
        self.brokers: dict[BrokerId, RigBroker] = {}
        self._stops: dict[BrokerId, asyncio.Event] = {}

    def start(self, broker_id: BrokerId) -> None:
        """Run a broker on its node."""

        async def main(runtime: Runtime) -> None:
            broker = RigBroker(broker_id, runtime, self, self._settings)
            self._stops[broker_id] = asyncio.Event()
            async with broker.running():
                self.brokers[broker_id] = broker
                await self._stops[broker_id].wait()

        self.world.node(f"broker-{broker_id}").start(main)

    def stop_all(self) -> None:
        """Let all brokers leave."""

        async def leave() -> None:
            for stop in self._stops.values():
                stop.set()
            await virtual_ms(5_000)

        self.world.run(leave())

    # The controller.

    def tell(
        self,
        leader: BrokerId,
        leader_epoch: int,
        *,
        isr: tuple[BrokerId, ...] = (1, 2),
        to: tuple[BrokerId, ...] | None = None,
        keys: tuple[TopicPartition, ...] = (T0,),
        topic_id: UUID = TOPIC_ID,
        config: LogConfig | None = None,
    ) -> None:
        """Tell brokers (all, unless said) who leads."""
        assignment = tuple(sorted(self.brokers))
        for key in keys:
            known = self.states.get(key)
            epoch = 0 if known is None else known.partition_epoch + 1
            self.states[key] = PartitionState(
                topic_id=topic_id,
                assignment=assignment,
                leader=leader,
                leader_epoch=leader_epoch,
                isr=isr,
                partition_epoch=epoch,
            )
        for broker_id in to or assignment:
            self.tell_metadata(self.brokers[broker_id])
            for key in keys:
                self._as(broker_id, partial(self._tell_role, self.brokers[broker_id], key, config or LogConfig()))

    def _as(self, broker_id: BrokerId, action: Callable[[], None]) -> None:
        """Act as a broker's process: what this starts ends with it."""
        self.world.node(f"broker-{broker_id}").process.context.copy().run(action)

    def _tell_role(self, broker: RigBroker, key: TopicPartition, config: LogConfig) -> None:
        state = self.states[key]
        leadership = Leadership(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
            assignment=state.assignment,
        )
        told = Told(key, state.topic_id, config, leadership, is_new=True)
        (broker.roles.lead if state.leader == broker.broker_id else broker.roles.follow)(told)

    def tell_metadata(self, broker: RigBroker) -> None:
        """Tell a broker what it tells clients."""
        topics: dict[str, dict[int, PartitionState]] = {}
        for key, state in self.states.items():
            topics.setdefault(key.topic, {})[key.index] = state
        broker.metadata.take_topics(
            [
                TopicImage(name=name, topic_id=next(iter(states.values())).topic_id, partitions=states)
                for name, states in topics.items()
            ]
        )
        broker.metadata.take_brokers(
            {
                one: BrokerImage(
                    broker_id=one,
                    broker_epoch=100 + one,
                    endpoints={name: Listener(name, f"broker-{one}", port) for name, port in PORTS.items()},
                    rack=self.racks.get(one),
                )
                for one in sorted(self.live)
            },
            controller_id=1,
            controller_epoch=1,
        )

    async def decide(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """What the controller says to proposals."""
        self.proposals.append(request)
        await virtual_ms(2)
        code = self.verdicts.pop(0) if self.verdicts else ErrorCode.NONE
        if code is ErrorCode.NOT_CONTROLLER:
            return AlterPartitionResponse(error_code=code)
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                key = next(one for one in self.states if one.index == row.partition_index)
                if code is not ErrorCode.NONE:
                    rows.append(AlteredPartition(partition_index=row.partition_index, error_code=code))
                    continue
                known = self.states[key]
                self.states[key] = state = PartitionState(
                    topic_id=known.topic_id,
                    assignment=known.assignment,
                    leader=known.leader,
                    leader_epoch=known.leader_epoch,
                    isr=tuple(one.broker_id for one in row.new_isr_with_epochs),
                    partition_epoch=known.partition_epoch + 1,
                )
                if self.tells_before_it_answers:
                    self._tell_role(self.brokers[state.leader], key, LogConfig())
                rows.append(
                    AlteredPartition(
                        partition_index=row.partition_index,
                        error_code=ErrorCode.NONE,
                        leader_id=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=state.isr,
                        partition_epoch=state.partition_epoch,
                    )
                )
            topics.append(AlteredTopic(topic_id=topic.topic_id, partitions=tuple(rows)))
        return AlterPartitionResponse(error_code=ErrorCode.NONE, topics=tuple(topics))

    # Looking.

    def until(self, condition: Callable[[], bool], *, within_ms: float = 10_000) -> float:
        """Let time pass until the condition holds; how many milliseconds that took."""

        async def wait() -> float:
            begun = asyncio.get_running_loop().time()
            while not condition():
                await virtual_ms(1)
                if asyncio.get_running_loop().time() - begun > within_ms / 1000:
                    raise AssertionError(f"not within {within_ms} ms")
            return (asyncio.get_running_loop().time() - begun) * 1000

        return self.world.run(wait())

    def talk(self, broker_id: BrokerId, story: Callable[[Connection], Coroutine[Any, Any, T]], *, listener: str) -> T:
        """Talk to a broker from another machine."""
        node = self.world.node("outside")
        limits = ConnectionLimits(
            client_id="outside",
            setup_timeout_ms=5_000,
            request_timeout_ms=60_000,
            in_flight_max=5,
            receive_bytes_max=1 << 30,
        )

        async def conversation() -> T:
            connection = await open_connection(
                node.runtime.network, Address(f"broker-{broker_id}", PORTS[listener]), limits
            )
            try:
                return await story(connection)
            finally:
                connection.close()

        return self.world.run(_awaited(node.spawn(conversation())))

    def trace(self) -> str:
        """What was logged."""
        return self.world.trace.text()


async def _awaited(task: asyncio.Future[T]) -> T:
    return await task


@contextmanager
def rig(brokers: int = 2, *, seed: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[Rig]:
    """Brokers that serve, and nobody has told them anything."""
    made = Rig(seed, brokers, settings or {})
    with made.world:
        for broker_id in sorted(made.live):
            made.start(broker_id)
        made.until(lambda: len(made.brokers) == brokers)
        yield made
        made.stop_all()
