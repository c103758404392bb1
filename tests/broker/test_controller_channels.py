"""How a controller tells brokers: what is new since they were last told, in order, again until they have it, nobody waiting for another."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any, cast
from uuid import UUID

from tests.broker.control_rig import OWN_EPOCH, OWN_ID, ControlledBroker
from tidelog.broker.controller_channels import ChannelSurroundings, ControllerChannels
from tidelog.broker.replica_descriptions import ReplicaDescriptions
from tidelog.config import BrokerConfig, Listener
from tidelog.controller import BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Address, Runtime
from tidelog.server import ConnectionLimits, Dispatcher, Guard, GuardLimits, Handler, RequestContext
from tidelog.server import Listener as BoundListener
from tidelog.simulation.registry import SimulatedRegistryStore
from tidelog.simulation.world import World
from tidelog.wire.api import ApiKey, Response, advertised_versions
from tidelog.wire.messages import leader_and_isr as lisr
from tidelog.wire.messages import stop_replica as stops
from tidelog.wire.messages import update_metadata as updates
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

LISTENER = "REPLICATION"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)
Told = lisr.LeaderAndIsrRequest | updates.UpdateMetadataRequest | stops.StopReplicaRequest


class ToldBroker:
    """Another broker: remembers what it is told, and answers what the test says."""

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.told: list[Told] = []
        self.refusals: list[ErrorCode] = []
        """Answers to the next requests as a whole; all are taken when nothing is left in here."""
        self.codes: dict[TopicPartition, list[ErrorCode]] = {}
        """Answers about single replicas, used up one by one."""
        self.is_silent = False

    def handlers(self) -> dict[ApiKey, Handler]:
        """What it serves."""
        table = {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.LEADER_AND_ISR: self._roles,
            ApiKey.UPDATE_METADATA: self._metadata,
            ApiKey.STOP_REPLICA: self._stops,
        }
        return cast("dict[ApiKey, Handler]", table)

    def _versions(self, _: RequestContext, __: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=advertised_versions(with_broker_only=True))

    def _take(self, request: Told, response: Callable[[ErrorCode], Response]) -> object:
        if self.is_silent:
            return asyncio.get_running_loop().create_future()
        code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        if code is ErrorCode.NONE:
            self.told.append(request)
        return response(code)

    def _roles(self, _: RequestContext, request: lisr.LeaderAndIsrRequest) -> object:
        topics = tuple(
            lisr.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    lisr.LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=self._code(TopicPartition(topic.topic_name, state.partition_index)),
                    )
                    for state in topic.partition_states
                ),
            )
            for topic in request.topic_states
        )
        return self._take(request, lambda code: lisr.LeaderAndIsrResponse(error_code=code, topics=topics))

    def _code(self, topic_partition: TopicPartition) -> ErrorCode:
        codes = self.codes.get(topic_partition)
        return codes.pop(0) if codes else ErrorCode.NONE

    def _metadata(self, _: RequestContext, request: updates.UpdateMetadataRequest) -> object:
        return self._take(request, lambda code: updates.UpdateMetadataResponse(error_code=code))

    def _stops(self, _: RequestContext, request: stops.StopReplicaRequest) -> object:
        return self._take(request, lambda code: stops.StopReplicaResponse(error_code=code))

    @property
    def kinds(self) -> list[str]:
        """What it was told, in order."""
        return [type(request).__name__.removesuffix("Request") for request in self.told]


class Offline:
    """The controller, as far as channels report to it."""

    def __init__(self) -> None:
        self.lost: list[tuple[BrokerId, list[TopicPartition]]] = []
        self.heard = asyncio.Event()
        self.refusals = 0  # how often it cannot decide before it can

    async def on_replica_offline(self, broker_id: BrokerId, broker_epoch: int, partitions: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the registry is away")
        self.lost.append((broker_id, list(partitions)))
        self.heard.set()


@dataclasses.dataclass
class Scene:
    """What a story sees."""

    channels: ControllerChannels
    own: ControlledBroker
    others: Mapping[BrokerId, ToldBroker]
    offline: Offline

    async def tell(self, image: ClusterImage, *, timeout_ms: float = 20_000) -> bool:
        """Publish, and wait until all have it."""
        self.channels.publish(image)
        return await self.channels.told(image, timeout_ms=timeout_ms)


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    """A controller on broker 1, and brokers 2 and 3 beside it."""
    others = {2: ToldBroker(2), 3: ToldBroker(3)}
    world = World(1)
    store = SimulatedRegistryStore(world.randomness.stream("registry"))

    async def serve(runtime: Runtime, broker: ToldBroker) -> None:
        dispatcher = Dispatcher(broker.handlers(), runtime.metrics, runtime.clock)
        limits = ConnectionLimits(request_bytes_max=1 << 24, recordless_request_bytes_max=1 << 24, idle_ms_max=600_000)
        guard = Guard(GuardLimits(), runtime)
        address = Address(f"broker-{broker.broker_id}", 9093)
        listener = BoundListener(LISTENER, address, dispatcher, limits, runtime, guard)
        async with listener.running():
            listener.serve()
            await asyncio.get_running_loop().create_future()

    async def control(runtime: Runtime) -> None:
        own = ControlledBroker(runtime, store.handle("broker-1"), {})
        descriptions = ReplicaDescriptions(OWN_ID, own.replicas, runtime.clock, lambda: OWN_EPOCH)
        channels = ControllerChannels(
            ChannelSurroundings(
                config=BrokerConfig.from_properties({"node.id": "1"}),
                runtime=runtime,
                inter_broker_listener=LISTENER,
                control_plane=own.control_plane,
                descriptions=descriptions,
            )
        )
        offline = Offline()
        channels.report_to(offline)
        async with AsyncExitStack() as parts:
            await own.open(parts)
            await parts.enter_async_context(channels.running())
            await story(Scene(channels, own, others, offline))

    async def played() -> None:
        await world.node("broker-1").start(control)

    with world:
        for broker in others.values():
            world.node(f"broker-{broker.broker_id}").start(lambda runtime, broker=broker: serve(runtime, broker))  # type: ignore[misc]
        world.run(played())


def state(*replicas: BrokerId, leader_epoch: int = 0, topic_id: UUID = TOPIC_ID) -> PartitionState:
    """Led by the first."""
    return PartitionState(
        topic_id=topic_id,
        assignment=replicas,
        leader=replicas[0],
        leader_epoch=leader_epoch,
        isr=replicas,
        partition_epoch=leader_epoch,
    )


def image(*states: PartitionState, brokers: Mapping[BrokerId, int] | None = None) -> ClusterImage:
    """A cluster with one topic, and brokers by their epochs."""
    known = {1: OWN_EPOCH, 2: 52, 3: 53} if brokers is None else brokers
    topics = (
        {"t": TopicImage(name="t", topic_id=states[0].topic_id, partitions=dict(enumerate(states)))} if states else {}
    )
    return ClusterImage(
        cluster_id="c",
        controller_id=1,
        controller_epoch=5,
        brokers={
            one: BrokerImage(
                broker_id=one,
                broker_epoch=epoch,
                endpoints={LISTENER: Listener(LISTENER, f"broker-{one}", 9093)},
            )
            for one, epoch in known.items()
        },
        topics=topics,
    )


def test_broker_is_told_everything_first_and_then_only_what_is_new() -> None:
    async def story(scene: Scene) -> None:
        assert await scene.tell(image(state(1, 2), state(3, 2)))
        assert scene.own.replicas.partition(T0).is_leader, "our own broker is told without a socket"
        two = scene.others[2]
        assert two.kinds == ["LeaderAndIsr", "UpdateMetadata"]
        assert [request.type for request in two.told] == [lisr.FULL, updates.FULL]  # type: ignore[union-attr]
        assert await scene.tell(image(state(1, 2), state(2, 3, leader_epoch=1)))
        roles, metadata = two.told[2:]
        assert isinstance(roles, lisr.LeaderAndIsrRequest)
        assert isinstance(metadata, updates.UpdateMetadataRequest)
        assert (roles.type, roles.broker_epoch, metadata.type) == (lisr.INCREMENTAL, 52, updates.INCREMENTAL)
        ((changed,),) = [topic.partition_states for topic in roles.topic_states]
        assert (changed.partition_index, changed.leader, changed.leader_epoch) == (1, 2, 1)

    play(story)


def test_images_that_nobody_was_told_of_are_passed_over_for_the_newest() -> None:
    async def story(scene: Scene) -> None:
        await scene.tell(image(state(2, 1)))
        for leader_epoch in range(1, 50):
            scene.channels.publish(image(state(2, 1, leader_epoch=leader_epoch)))
        assert await scene.tell(image(state(2, 1, leader_epoch=50)))
        assert len(scene.others[2].told) <= 6

    play(story)


def test_broker_that_does_not_answer_delays_nobody_else() -> None:
    async def story(scene: Scene) -> None:
        scene.others[3].is_silent = True
        assert not await scene.tell(image(state(2, 3)), timeout_ms=5_000)
        assert scene.others[2].kinds == ["LeaderAndIsr", "UpdateMetadata"]
        scene.others[3].is_silent = False
        assert await scene.channels.told(image(), timeout_ms=60_000), "asked again once its answer is overdue"
        assert scene.others[3].kinds == ["LeaderAndIsr", "UpdateMetadata"]

    play(story)


def test_broker_that_vanishes_is_waited_for_no_longer() -> None:
    async def story(scene: Scene) -> None:
        scene.others[3].is_silent = True
        scene.channels.publish(image(state(2, 3)))
        assert await scene.tell(image(state(2, 3), brokers={1: OWN_EPOCH, 2: 52}))

    play(story)


def test_broker_that_refuses_for_now_is_asked_again() -> None:
    async def story(scene: Scene) -> None:
        scene.others[2].refusals += [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT]
        assert await scene.tell(image(state(2, 3)))
        assert scene.others[2].kinds == ["LeaderAndIsr", "UpdateMetadata"]

    play(story)


def test_broker_that_registered_anew_is_told_everything_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.tell(image(state(2, 3)))
        assert await scene.tell(image(state(2, 3), brokers={1: OWN_EPOCH, 2: 62, 3: 53}))
        again = scene.others[2].told[2]
        assert isinstance(again, lisr.LeaderAndIsrRequest)
        assert (again.type, again.broker_epoch) == (lisr.FULL, 62)
        assert len(scene.others[3].told) == 3, "who stayed is told of the brokers only"

    play(story)


def test_c01_controller_that_was_replaced_falls_silent() -> None:
    async def story(scene: Scene) -> None:
        scene.others[2].refusals.append(ErrorCode.STALE_CONTROLLER_EPOCH)
        assert not await scene.tell(image(state(2, 3)))
        assert scene.others[2].told == []

    play(story)


def test_replica_whose_disk_failed_is_reported_and_the_others_are_told() -> None:
    async def story(scene: Scene) -> None:
        scene.others[2].codes[T0] = [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await scene.tell(image(state(2, 3), state(2, 3)))
        async with asyncio.timeout(10):
            await scene.offline.heard.wait()
        assert scene.offline.lost == [(2, [T0])]

    play(story)


def test_replica_whose_disk_failed_while_the_registry_was_away_is_reported_again() -> None:
    async def story(scene: Scene) -> None:
        scene.offline.refusals = 3
        scene.others[2].codes[T0] = [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await scene.tell(image(state(2, 3), state(2, 3)))
        async with asyncio.timeout(10):
            await scene.offline.heard.wait()
        assert scene.offline.lost == [(2, [T0])]

    play(story)


def test_broker_whose_disk_failed_is_asked_again_about_each_replica() -> None:
    async def story(scene: Scene) -> None:
        await scene.tell(image(state(2, 3), state(3, 2)))
        scene.others[2].codes[T1] = [ErrorCode.KAFKA_STORAGE_ERROR]
        scene.channels.repeat(2)
        async with asyncio.timeout(10):
            await scene.offline.heard.wait()
        assert scene.offline.lost == [(2, [T1])]

    play(story)


def test_topic_in_the_way_of_its_namesake_is_stopped_first() -> None:
    async def story(scene: Scene) -> None:
        scene.others[2].codes[T0] = [ErrorCode.INCONSISTENT_TOPIC_ID]
        assert await scene.tell(image(state(2, 3)))
        assert scene.others[2].kinds == ["LeaderAndIsr", "StopReplica", "LeaderAndIsr", "UpdateMetadata"]

    play(story)


def test_deleted_topic_is_told_and_stopped() -> None:
    async def story(scene: Scene) -> None:
        await scene.tell(image(state(1, 2)))
        assert await scene.tell(image())
        assert scene.own.replicas.hosting.partition(T0) is None
        assert scene.others[2].kinds[2:] == ["UpdateMetadata", "StopReplica"]
        assert scene.others[3].kinds[2:] == ["UpdateMetadata"]

    play(story)


def test_ends_of_logs_are_asked_of_our_own_broker_too() -> None:
    async def story(scene: Scene) -> None:
        await scene.tell(image(state(1, 2)))
        ends = await scene.channels.replica_ends(1, [T0, T1])
        assert {partition: end.log_end_offset for partition, end in ends.items()} == {T0: 0}

    play(story)
