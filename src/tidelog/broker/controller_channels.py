"""How the controller's truth reaches the brokers: one channel per live broker, each telling what is new since it last told.

There is no queue. A channel remembers the image that its broker has taken and tells the difference to the newest; images that come while it
tells are passed over for the last of them. What has begun is told to its end, request by request, because the broker may have taken part
of it. A broker that does not answer is asked again for as long as it is registered under that epoch, and delays nobody else. Our own broker
is told without a socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from tidelog.broker.control_plane import ControlPlane
from tidelog.broker.peers import NOWHERE, PeerLine, peer_limits, reachable
from tidelog.broker.replica_descriptions import DESCRIBE_REPLICAS_VERSION, ReplicaDescriptions, ends_in, request_for
from tidelog.broker.tellings import ControlRequest, Telling
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.config import BrokerConfig
from tidelog.controller import BrokerImage, ClusterImage
from tidelog.controller.channels import ReplicaEnd
from tidelog.controller.difference import Role, StoppedReplica, difference
from tidelog.model import ApiError, BrokerEpoch, BrokerId, ErrorCode, TopicPartition, invariant
from tidelog.runtime import Address, Runtime
from tidelog.runtime.logs import fields
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from tidelog.wire.messages.stop_replica import EPOCH_DURING_DELETE, StopReplicaRequest, StopReplicaResponse
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

logger = logging.getLogger(__name__)

ControlResponse: TypeAlias = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

_PAUSE_MS: Final = 50.0
_PAUSE_MS_MAX: Final = 1_000.0


class ChannelOwner(Protocol):
    """Who hears what brokers answer: `ControllerService`."""

    async def on_replica_offline(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, partitions: Sequence[TopicPartition]
    ) -> None:
        """The disks of a live broker do not serve these replicas. Raises ApiError where nothing could be decided."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSurroundings:
    """What all channels share."""

    config: BrokerConfig
    runtime: Runtime
    inter_broker_listener: str
    control_plane: ControlPlane
    descriptions: ReplicaDescriptions


class _Refused(Exception):
    """The broker does not take the request as a whole, now or ever."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class _Channel:
    """Tells one broker, for as long as it is registered under one epoch."""

    def __init__(self, broker: BrokerImage, around: ChannelSurroundings, owner: ControllerChannels) -> None:
        self.broker = broker
        self._around = around
        self._owner = owner
        self._line = PeerLine(around.runtime.network, peer_limits(around.config))
        self._taken: ClusterImage | None = None
        self.taken_serial = 0
        self._news = asyncio.Event()
        self._must_repeat = False
        self._is_silent = False  # Said once that it does not answer.

    def wake(self) -> None:
        """There is a newer image."""
        self._news.set()

    def repeat(self) -> None:
        """Ask again about every replica: the disks of the broker have changed."""
        self._must_repeat = True
        self._news.set()

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    async def run(self) -> None:
        """Tell, until cancelled or fenced."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._tell_newest()
            except _Refused as refused:
                known = fields(broker_id=self.broker.broker_id, reason=refused.code.name)
                logger.warning("broker takes no word of this controller", extra=known)
                if refused.code is ErrorCode.STALE_CONTROLLER_EPOCH:
                    self._owner.fenced()
                return  # Of a broker that has registered anew, the next image speaks.

    async def _tell_newest(self) -> None:
        image, serial = self._owner.newest()
        if self._must_repeat and self._taken is not None:
            self._must_repeat = False
            telling = self._telling(image)
            roles = difference(None, image, self.broker.broker_id).roles
            for again in telling.roles(roles):
                await self._tell(again, telling, roles)
        told = difference(self._taken, image, self.broker.broker_id)
        telling = self._telling(image)
        for request in telling.requests(told):
            await self._tell(request, telling, told.roles)
        self._taken, self.taken_serial = image, serial
        self._owner.on_taken()

    def _telling(self, image: ClusterImage) -> Telling:
        return Telling(self.broker, image, self._around.inter_broker_listener)

    async def _tell(self, request: ControlRequest, telling: Telling, roles: Sequence[Role]) -> None:
        """One request, until it is taken. Raises _Refused."""
        pause_ms = _PAUSE_MS
        while (response := await self._answer(request)) is None:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, _PAUSE_MS_MAX)
        if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
            await self._heed(request, response, telling, roles)

    async def _answer(self, request: ControlRequest) -> ControlResponse | None:
        """The answer of a broker that has taken the request; None where it has to be asked again. Raises _Refused."""
        try:
            response = await self._ask(request)
        except (ConnectionLost, UnsupportedApi) as error:
            self._note_silence(error)
            return None
        self._is_silent = False
        if response.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH):
            raise _Refused(response.error_code)
        if response.error_code is ErrorCode.NONE:
            return response
        known = fields(broker_id=self.broker.broker_id, reason=response.error_code.name)
        logger.warning("broker refuses for now", extra=known)
        return None

    async def _ask(self, request: ControlRequest) -> ControlResponse:
        if self.broker.broker_id == self._around.config.broker_id:
            return await _apply(self._around.control_plane, request)
        return await self._line.request(address_of(self.broker, self._around.inter_broker_listener), request)

    def _note_silence(self, error: Exception) -> None:
        if not self._is_silent:
            self._is_silent = True
            known = fields(broker_id=self.broker.broker_id, reason=error)
            logger.warning("broker does not answer its controller", extra=known)

    async def _heed(
        self, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse, telling: Telling, roles: Sequence[Role]
    ) -> None:
        """What the broker says about single replicas: the disk failed, or a topic of the same name is in the way."""
        failed = list(_answered(request, response, ErrorCode.KAFKA_STORAGE_ERROR))
        if failed:
            self._owner.offline(self.broker, failed)
        in_the_way = frozenset(_answered(request, response, ErrorCode.INCONSISTENT_TOPIC_ID))
        if in_the_way:
            again = [role for role in roles if role.topic_partition in in_the_way]
            stopped = [
                StoppedReplica(topic_partition=one.topic_partition, leader_epoch=EPOCH_DURING_DELETE, is_deleted=True)
                for one in again
            ]
            for stop in telling.stops(stopped):
                await self._tell(stop, telling, ())
            for role_request in telling.roles(again):
                await self._tell(role_request, telling, ())


class ControllerChannels:
    """Implements `controller.ClusterChannels`: tells while we are the controller, and is silent otherwise."""

    def __init__(self, around: ChannelSurroundings) -> None:
        self._around = around
        self._controller: ChannelOwner | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._channels: dict[BrokerId, tuple[_Channel, asyncio.Task[None]]] = {}
        self._image: ClusterImage | None = None
        self._serial = 0
        self._progress = asyncio.Event()
        self._reports: set[asyncio.Task[None]] = set()

    def report_to(self, controller: ChannelOwner) -> None:
        """Who hears what brokers answer; named after the fact, since it needs the channels first."""
        self._controller = controller

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell what is published until the block is left."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                yield
            finally:
                self.withdraw()
                self._tasks = None

    # What the controller asks.

    def publish(self, image: ClusterImage) -> None:
        """This is the truth now: a channel for every live broker, and none for others."""
        self._image = image
        self._serial += 1
        for broker_id, (channel, _) in list(self._channels.items()):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.broker_epoch != channel.broker.broker_epoch:
                self._close(broker_id)
        for broker_id, broker in sorted(image.brokers.items()):
            if broker_id not in self._channels:
                self._open(broker)
            self._channels[broker_id][0].wake()
        self.on_taken()

    async def told(self, image: ClusterImage, *, timeout_ms: float) -> bool:
        """Wait until every live broker has taken the newest image, which is this one or newer; whether that came to be in time."""
        serial = self._serial
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._image is not None and any(
                    channel.taken_serial < serial for channel, _ in self._channels.values()
                ):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return self._image is not None

    def withdraw(self) -> None:
        """We are not the controller any more: tell nobody anything."""
        self._image = None
        for broker_id in list(self._channels):
            self._close(broker_id)
        for report in self._reports:
            report.cancel()
        self.on_taken()

    async def replica_ends(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ReplicaEnd]:
        """Ask a live broker how far its replicas go; those it has not are left out. Raises ApiError."""
        image = self._image
        broker = None if image is None else image.brokers.get(broker_id)
        if image is None or broker is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not registered")
        request = request_for(partitions)
        if broker_id == self._around.config.broker_id:
            return ends_in(await self._around.descriptions.describe(request), image)
        line = PeerLine(self._around.runtime.network, peer_limits(self._around.config))
        try:
            address = address_of(broker, self._around.inter_broker_listener)
            return ends_in(await line.request(address, request, version=DESCRIBE_REPLICAS_VERSION), image)
        except (ConnectionLost, UnsupportedApi) as error:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from error
        finally:
            line.close()

    def repeat(self, broker_id: BrokerId) -> None:
        """The disks of a broker have changed: ask it again about every replica."""
        if broker_id in self._channels:
            self._channels[broker_id][0].repeat()

    # What the channels ask.

    def newest(self) -> tuple[ClusterImage, int]:
        """The image to be told, and its number."""
        invariant(self._image is not None, "channels end when there is nothing to tell")
        return self._image or ClusterImage(), self._serial

    def on_taken(self) -> None:
        """A broker has taken an image, or need not any more."""
        self._progress.set()

    def fenced(self) -> None:
        """A broker has heard of a newer controller: say nothing more. The registry will tell ours that its reign is over."""
        self.withdraw()

    def offline(self, broker: BrokerImage, partitions: Sequence[TopicPartition]) -> None:
        """A broker cannot serve these replicas. The controller decides in its own time: what it decides is told by us."""
        if self._controller is not None and self._tasks is not None:
            report = self._tasks.create_task(self._report_offline(self._controller, broker, partitions))
            self._reports.add(report)
            report.add_done_callback(self._reports.discard)

    async def _report_offline(
        self, controller: ChannelOwner, broker: BrokerImage, partitions: Sequence[TopicPartition]
    ) -> None:
        """Until it is heeded or in vain, since the broker does not say it again: the registry may be away just now."""
        pause_ms = _PAUSE_MS
        while self._image is not None and self._image.brokers.get(broker.broker_id) == broker:
            try:
                await controller.on_replica_offline(broker.broker_id, broker.broker_epoch, partitions)
            except ApiError as error:
                logger.warning("replicas not taken offline", extra=fields(broker_id=broker.broker_id, reason=error))
            else:
                return
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, _PAUSE_MS_MAX)

    def _open(self, broker: BrokerImage) -> None:
        invariant(self._tasks is not None, "images are published only while the channels run")
        channel = _Channel(broker, self._around, self)
        if self._tasks is not None:
            self._channels[broker.broker_id] = (channel, self._tasks.create_task(channel.run()))

    def _close(self, broker_id: BrokerId) -> None:
        channel, task = self._channels.pop(broker_id)
        task.cancel()
        channel.close()


def address_of(broker: BrokerImage, listener: str) -> Address:
    """Where a registered broker is reached by others. Raises ConnectionLost for one that does not say."""
    endpoint = broker.endpoints.get(listener)
    if endpoint is None:
        raise ConnectionLost(NOWHERE, f"broker {broker.broker_id} has no listener {listener}")
    return reachable(Address(endpoint.host, endpoint.port))


async def _apply(control_plane: ControlPlane, request: ControlRequest) -> ControlResponse:
    match request:
        case LeaderAndIsrRequest():
            return await control_plane.leader_and_isr(request)
        case UpdateMetadataRequest():
            return await control_plane.update_metadata(request)
        case StopReplicaRequest():
            return await control_plane.stop_replica(request)


def _answered(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse, code: ErrorCode
) -> Iterator[TopicPartition]:
    """The partitions that were answered with this code."""
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    for topic in response.topics:
        for partition in topic.partition_errors:
            if partition.error_code is code and topic.topic_id in names:
                yield TopicPartition(names[topic.topic_id], partition.partition_index)
