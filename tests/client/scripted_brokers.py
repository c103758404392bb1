"""Brokers that do as the test says: real bytes over a simulated network, a log per broker, and who leads is a line of the test.

A real cluster has to be brought to move its leaders, to cut its logs, or to tell old news; here it is asked to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from tidelog.model import BrokerId, ErrorCode, LeaderEpoch, Offset, TopicPartition
from tidelog.records.batch import headers
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.record import read_records
from tidelog.runtime import Address, Runtime
from tidelog.simulation.world import World
from tidelog.wire.api import ApiKey, Request, Response, advertised_versions
from tidelog.wire.codec import decode_request
from tidelog.wire.frame import encode_response_frame
from tidelog.wire.header import RequestHeader, decode_request_header
from tidelog.wire.messages import fetch, list_offsets, metadata, offset_for_leader_epoch, produce
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.stream import FrameDecoder

T = TypeVar("T")
Answer: TypeAlias = Response | None  # None is silence
Script: TypeAlias = Callable[[BrokerId, Any], "Answer | Awaitable[Answer] | NotImplementedType"]

PORT = 9092
TOPIC_ID = UUID(int=7)
T0 = TopicPartition("t", 0)


class NotImplementedType:
    """A script that leaves a request to the broker answers with this."""


AS_USUAL = NotImplementedType()


class Entry(NamedTuple):
    """One record of a log."""

    leader_epoch: LeaderEpoch
    value: bytes


class View(NamedTuple):
    """Who leads, as one broker believes."""

    leader: BrokerId
    leader_epoch: LeaderEpoch


class ScriptedBrokers:
    """Brokers with one topic of one partition, `t-0`. All know the truth unless `views` says otherwise."""

    def __init__(self, *broker_ids: BrokerId, seed: int = 1) -> None:
        self.world = World(seed)
        self.broker_ids = broker_ids or (1, 2, 3)
        self.controller: BrokerId = self.broker_ids[0]
        self.truth = View(self.broker_ids[0], 0)
        self.views: dict[BrokerId, View] = {}
        self.readable: set[BrokerId] = set()  # followers that serve consumers
        self.logs: dict[BrokerId, list[Entry]] = {node: [] for node in self.broker_ids}
        self.scripts: dict[ApiKey, Script] = {}
        self.asked: list[tuple[float, BrokerId, Request[Response]]] = []
        self.expelled: set[BrokerId] = set()  # are not of the cluster any more, whatever they do
        self.mistakes: list[BaseException] = []
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"broker-{node}:{PORT}" for node in self.broker_ids)

    def run(self, story: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Start the brokers and tell the story on a machine of its own."""
        with self.world as world:
            for node in self.broker_ids:
                self.start(node)
            world.run_for_ms(10)
            client = world.node("client")

            async def told() -> T:
                return await client.spawn(story(client.runtime))

            try:
                return world.run(told())
            finally:
                if self.mistakes:
                    raise self.mistakes[0]

    def start(self, node: BrokerId) -> None:
        async def serve(runtime: Runtime) -> None:
            await runtime.network.listen(lambda: _Connection(self, node, runtime), Address(f"broker-{node}", PORT))
            await asyncio.get_running_loop().create_future()

        self.world.node(f"broker-{node}").start(serve)

    def kill(self, node: BrokerId) -> None:
        """The process is gone: connections are reset, new ones refused."""
        self.world.node(f"broker-{node}").kill()

    def elect(self, node: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Everybody knows at once."""
        self.truth = View(node, leader_epoch)
        self.views = {}
        self._tell_news()

    def append(self, *values: bytes, to: BrokerId | None = None, leader_epoch: LeaderEpoch | None = None) -> None:
        """Records on every broker, or on one only."""
        epoch = self.truth.leader_epoch if leader_epoch is None else leader_epoch
        for node in self.broker_ids if to is None else (to,):
            self.logs[node] += [Entry(epoch, value) for value in values]
        self._tell_news()

    def requests(self, kind: type[T]) -> list[tuple[BrokerId, T]]:
        """What was asked of whom, of this kind."""
        return [(node, request) for _, node, request in self.asked if isinstance(request, kind)]

    def times(self, kind: type[Any]) -> list[float]:
        """When requests of this kind came."""
        return [when for when, _, request in self.asked if isinstance(request, kind)]

    def on_served(self, serving: asyncio.Task[None]) -> None:
        """A script that raises is a mistake of the test, which must not look like a silent broker."""
        if not serving.cancelled() and (mistake := serving.exception()) is not None:
            self.mistakes.append(mistake)

    async def answer(self, node: BrokerId, header: RequestHeader, request: Request[Response]) -> Answer:
        script = self.scripts.get(header.api_key)
        answered = AS_USUAL if script is None else script(node, request)
        if isinstance(answered, Awaitable):
            answered = await answered
        if not isinstance(answered, NotImplementedType):
            return answered
        match request:
            case fetch.FetchRequest():
                return await self._fetch(node, header.api_version, request)
            case produce.ProduceRequest():
                return self._produce(node, request)
            case metadata.MetadataRequest():
                return self._metadata(node, request)
            case list_offsets.ListOffsetsRequest():
                return self._list_offsets(node, request)
            case offset_for_leader_epoch.OffsetForLeaderEpochRequest():
                return self._epoch_ends(node, request)
            case _ if header.api_key is ApiKey.API_VERSIONS:
                return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=advertised_versions())
            case _ if header.api_key is ApiKey.INIT_PRODUCER_ID:
                return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=1, producer_epoch=0)
        raise AssertionError(f"no script for {type(request).__name__}")

    def view(self, node: BrokerId) -> View:
        return self.views.get(node, self.truth)

    def _check(self, node: BrokerId, epoch: LeaderEpoch, *, may_follow: bool = False) -> ErrorCode:
        view = self.view(node)
        if epoch >= 0 and epoch < view.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > view.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if view.leader != node and not (may_follow and node in self.readable):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _metadata(self, node: BrokerId, request: metadata.MetadataRequest) -> Response:
        view = self.view(node)
        partition = metadata.MetadataResponsePartition(
            error_code=ErrorCode.NONE,
            partition_index=0,
            leader_id=view.leader,
            leader_epoch=view.leader_epoch,
            replica_nodes=self.broker_ids,
            isr_nodes=self.broker_ids,
        )
        topic = metadata.MetadataResponseTopic(
            error_code=ErrorCode.NONE, name="t", topic_id=TOPIC_ID, partitions=(partition,)
        )
        return metadata.MetadataResponse(
            brokers=tuple(
                metadata.MetadataResponseBroker(node_id=each, host=f"broker-{each}", port=PORT)
                for each in self.broker_ids
                if each not in self.expelled
            ),
            cluster_id="scripted",
            controller_id=self.controller,
            topics=(topic,) if request.topics is None or request.topics else (),
        )

    async def _fetch(self, node: BrokerId, version: int, request: fetch.FetchRequest) -> Response:
        answers = self._read(node, version, request)
        if not any(answer.error_code or answer.records for answer in answers):
            await self._news(request.max_wait_ms)
            answers = self._read(node, version, request)
        by_id = version >= 13
        topic = fetch.FetchableTopicResponse(
            topic="" if by_id else "t", topic_id=TOPIC_ID if by_id else None, partitions=tuple(answers)
        )
        # No sessions: every request names what it wants, so that a test can look at each.
        return fetch.FetchResponse(throttle_time_ms=0, responses=(topic,))

    async def _news(self, max_wait_ms: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                await waiter
        except TimeoutError:
            return

    def _tell_news(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _read(self, node: BrokerId, version: int, request: fetch.FetchRequest) -> list[fetch.PartitionData]:
        answers = []
        for wanted in (one for topic in request.topics for one in topic.partitions):
            code = self._check(node, wanted.current_leader_epoch, may_follow=version >= 11)
            log = self.logs[node]
            if code is ErrorCode.NONE and wanted.fetch_offset > len(log):
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            records = b"" if code else encoded(log, wanted.fetch_offset)
            answers.append(
                fetch.PartitionData(
                    partition_index=wanted.partition,
                    error_code=code,
                    high_watermark=len(log),
                    last_stable_offset=len(log),
                    log_start_offset=0,
                    aborted_transactions=None,
                    records=records,
                )
            )
        return answers

    def _produce(self, node: BrokerId, request: produce.ProduceRequest) -> Response:
        rows = []
        for topic in request.topic_data:
            for data in topic.partition_data:
                code = self._check(node, -1)
                base_offset = -1 if code else len(self.logs[node])
                if not code:
                    self.append(
                        *(record.value or b"" for record in read_records(data.records or b"", max_bytes=1 << 20))
                    )
                row = produce.PartitionProduceResponse(index=data.index, error_code=code, base_offset=base_offset)
                rows.append(
                    produce.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=(row,))
                )
        return produce.ProduceResponse(responses=tuple(rows))

    def _list_offsets(self, node: BrokerId, request: list_offsets.ListOffsetsRequest) -> Response:
        rows = []
        for wanted in (one for topic in request.topics for one in topic.partitions):
            code = self._check(node, wanted.current_leader_epoch)
            offset = 0 if wanted.timestamp == list_offsets.EARLIEST_TIMESTAMP else len(self.logs[node])
            rows.append(
                list_offsets.ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, offset=-1 if code else offset
                )
            )
        topic = list_offsets.ListOffsetsTopicResponse(name="t", partitions=tuple(rows))
        return list_offsets.ListOffsetsResponse(topics=(topic,))

    def _epoch_ends(self, node: BrokerId, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest) -> Response:
        rows = []
        for wanted in (one for topic in request.topics for one in topic.partitions):
            code = self._check(node, wanted.current_leader_epoch)
            epoch, end = (-1, -1) if code else self._epoch_end(node, wanted.leader_epoch)
            rows.append(
                offset_for_leader_epoch.EpochEndOffset(
                    error_code=code, partition=wanted.partition, leader_epoch=epoch, end_offset=end
                )
            )
        topic = offset_for_leader_epoch.OffsetForLeaderTopicResult(topic="t", partitions=tuple(rows))
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=(topic,))

    def _epoch_end(self, node: BrokerId, wanted: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        log = self.logs[node]
        known = [entry.leader_epoch for entry in log if entry.leader_epoch <= wanted]
        return (known[-1], len(known)) if known else (-1, -1)


class _Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, brokers: ScriptedBrokers, node: BrokerId, runtime: Runtime) -> None:
        self._brokers = brokers
        self._node = node
        self._runtime = runtime
        self._frames = FrameDecoder(size_max=1 << 24)
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Queue[bytearray] = asyncio.Queue()
        self._serving: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._serving = asyncio.get_running_loop().create_task(self._serve())
        self._serving.add_done_callback(self._brokers.on_served)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._serving is not None:
            self._serving.cancel()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._waiting.put_nowait(bytearray(frame))

    async def _serve(self) -> None:
        while True:
            frame = await self._waiting.get()
            header, position = decode_request_header(frame)
            request = decode_request(header.api_key, header.api_version, memoryview(frame)[position:])
            self._brokers.asked.append((self._runtime.clock.monotonic_ms(), self._node, request))
            answer = await self._brokers.answer(self._node, header, request)
            if answer is not None and self._transport is not None:
                self._transport.writelines(encode_response_frame(header, answer))


def encoded(log: list[Entry], start: Offset) -> bytes:
    """A batch per record, as a leader of its epoch wrote it."""
    batches = []
    for offset in range(start, len(log)):
        builder = RecordBatchBuilder()
        builder.append(timestamp_ms=offset, key=None, value=log[offset].value)
        batches.append(bytes(builder.build(base_offset=offset, leader_epoch=log[offset].leader_epoch)))
    assert all(header.record_count == 1 for batch in batches for _, header in headers(batch))
    return b"".join(batches)
