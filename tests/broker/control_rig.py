"""A broker's control plane in a simulated world: the test is the controller, and sees what reaches the replicas."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from uuid import UUID

from tidelog.broker.config_follower import ConfigFollower
from tidelog.broker.control_plane import ControlPlane
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.partition import IsrProposal, Partition
from tidelog.registry import Registry
from tidelog.runtime import Runtime
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import OwnedTask
from tidelog.simulation.registry import SimulatedRegistryStore
from tidelog.simulation.world import World
from tidelog.wire.messages import leader_and_isr as lisr
from tidelog.wire.messages import stop_replica as stops
from tidelog.wire.messages import update_metadata as updates

T = TypeVar("T")

TOPIC_ID = UUID(int=7)
OTHER_ID = UUID(int=8)
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
OWN_ID = 1
OWN_EPOCH = 50
CONTROLLER_EPOCH = 3


class SeenFetchers:
    """Fetches nothing; remembers who is to be fetched from whom."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, BrokerId] = {}
        self.asked_count = 0

    def follow(self, partition: Partition, leader_id: BrokerId) -> None:
        self.leaders[partition.topic_partition] = leader_id
        self.asked_count += 1

    def unfollow(self, topic_partition: TopicPartition) -> None:
        self.leaders.pop(topic_partition, None)


class SeenProposals:
    """Asks nobody."""

    def __init__(self) -> None:
        self.proposals: list[IsrProposal] = []

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self.proposals.append(proposal)


class ControlRig:
    """One broker and its registry, to `tell` stories of."""

    def __init__(self, **settings: str) -> None:
        self.world = World(1)
        self.store = SimulatedRegistryStore(self.world.randomness.stream("registry"))
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}

    @property
    def disk(self) -> SimulatedDisk:
        """Where its logs lie."""
        return self.world.node("broker-1").disk

    def tell(self, *stories: Callable[[ControlledBroker], Coroutine[Any, Any, T]]) -> T:
        """Run a broker for as long as a story lasts, then another one on the same disk; the answer of the last."""
        node = self.world.node("broker-1")
        answers: list[T] = []

        async def main(runtime: Runtime) -> None:
            broker = ControlledBroker(runtime, self.store.handle("broker-1"), self._settings)
            async with AsyncExitStack() as parts:
                await broker.open(parts)
                answers.append(await stories[len(answers)](broker))

        async def ended(process: OwnedTask[object] | None) -> None:
            if process is not None:
                await process

        with self.world:
            self.world.run(ended(node.start(main)))
            for _ in stories[1:]:
                self.world.run(ended(node.restart()))
        return answers[-1]


class ControlledBroker:
    """What the story sees."""

    def __init__(self, runtime: Runtime, registry: Registry, settings: Mapping[str, str]) -> None:
        config = BrokerConfig.from_properties({"node.id": str(OWN_ID), "log.dirs": "/data", **settings})
        self.runtime = runtime
        self.registry = registry
        self.live_config = LiveConfig(config)
        self.metadata = MetadataCache()
        self.replicas = ReplicaManager(config, runtime)
        self.roles_of_replicas = ReplicaRoles(config, runtime.clock, self.replicas, is_live=self.metadata.is_live)
        self.fetchers = SeenFetchers()
        self.isr_changes = SeenProposals()
        self.replicas.replicate_with(self.fetchers, self.isr_changes)
        self.configs = ConfigFollower(registry, self.live_config, self.metadata, self.roles_of_replicas)
        self.control_plane = ControlPlane(
            OWN_ID, runtime.clock, self.metadata, self.replicas, self.roles_of_replicas, self.configs
        )
        self.control_plane.broker_epoch = OWN_EPOCH

    async def open(self, parts: AsyncExitStack) -> None:
        """Begin as a broker does."""
        await self.registry.open_session()
        for path in layout.PERSISTENT_PATHS:
            if not await self.registry.exists(path):
                await self.registry.create(path)
        await parts.enter_async_context(self.replicas.running("cluster"))
        await parts.enter_async_context(self.configs.running())

    async def lead(self, *roles: lisr.LeaderAndIsrPartitionState, **about: Any) -> ErrorCode:
        """LeaderAndIsr of one topic; the code of its only partition, or of the whole."""
        codes = await self.roles(*roles, **about)
        return codes if isinstance(codes, ErrorCode) else codes[0]

    async def roles(
        self,
        *roles: lisr.LeaderAndIsrPartitionState,
        topic: str = "t",
        topic_id: UUID | None = TOPIC_ID,
        controller_epoch: int = CONTROLLER_EPOCH,
        broker_epoch: int = OWN_EPOCH,
        is_full: bool = False,
    ) -> ErrorCode | list[ErrorCode]:
        """The codes of all partitions, or of the whole."""
        state = lisr.LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=roles)
        response = await self.control_plane.leader_and_isr(
            lisr.LeaderAndIsrRequest(
                controller_id=9,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                type=lisr.FULL if is_full else lisr.INCREMENTAL,
                topic_states=(state,) if roles else (),
                live_leaders=(lisr.LeaderAndIsrLiveLeader(broker_id=2, host_name="two", port=2222),),
            )
        )
        if response.error_code is not ErrorCode.NONE:
            return response.error_code
        return [one.error_code for answered in response.topics for one in answered.partition_errors]

    async def update(
        self,
        states: Mapping[TopicPartition, updates.UpdateMetadataPartitionState],
        *,
        topic_id: UUID | None = TOPIC_ID,
        brokers: Sequence[BrokerId] = (1, 2),
        is_full: bool = False,
        controller_epoch: int = CONTROLLER_EPOCH,
    ) -> ErrorCode:
        """UpdateMetadata."""
        response = await self.control_plane.update_metadata(
            updates.UpdateMetadataRequest(
                controller_id=9,
                controller_epoch=controller_epoch,
                broker_epoch=OWN_EPOCH,
                type=updates.FULL if is_full else updates.INCREMENTAL,
                topic_states=tuple(
                    updates.UpdateMetadataTopicState(
                        topic_name=partition.topic, topic_id=topic_id, partition_states=(state,)
                    )
                    for partition, state in states.items()
                ),
                live_brokers=tuple(updates.UpdateMetadataBroker(id=one, endpoints=()) for one in brokers),
            )
        )
        return response.error_code

    async def stop(
        self, partition: TopicPartition, *, leader_epoch: int = -1, is_deleted: bool = True, controller_epoch: int = 3
    ) -> ErrorCode:
        """StopReplica of one partition."""
        state = stops.StopReplicaPartitionState(
            partition_index=partition.index, leader_epoch=leader_epoch, delete_partition=is_deleted
        )
        response = await self.control_plane.stop_replica(
            stops.StopReplicaRequest(
                controller_id=9,
                controller_epoch=controller_epoch,
                broker_epoch=OWN_EPOCH,
                topic_states=(stops.StopReplicaTopicState(topic_name=partition.topic, partition_states=(state,)),),
            )
        )
        if response.error_code is not ErrorCode.NONE:
            return response.error_code
        return response.partition_errors[0].error_code


def role(
    index: int = 0,
    *,
    leader: BrokerId = OWN_ID,
    leader_epoch: int = 0,
    partition_epoch: int | None = None,
    isr: tuple[BrokerId, ...] = (1, 2),
    replicas: tuple[BrokerId, ...] = (1, 2),
    is_new: bool = True,
) -> lisr.LeaderAndIsrPartitionState:
    """One partition of LeaderAndIsr."""
    return lisr.LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=CONTROLLER_EPOCH,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
        replicas=replicas,
        is_new=is_new,
    )


def told(
    index: int = 0,
    *,
    leader: BrokerId = OWN_ID,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    replicas: tuple[BrokerId, ...] = (1, 2),
) -> updates.UpdateMetadataPartitionState:
    """One partition of UpdateMetadata."""
    return updates.UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=CONTROLLER_EPOCH,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=replicas,
        zk_version=partition_epoch,
        replicas=replicas,
    )
