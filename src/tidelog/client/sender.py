"""Moves batches from the accumulator to the brokers: one loop decides and writes, one small task per request waits for the answer.

Only the loop writes Produce requests, and it drains a partition and writes in one breath, so batches reach a connection in the order of
their sequence numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from tidelog.client.accumulator import Accumulator, RetryCause
from tidelog.client.batch import OutgoingBatch
from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ProducerConfig
from tidelog.client.connection import Connection, Unanswered
from tidelog.client.errors import (
    BrokersUnreachable,
    ClientError,
    ConnectionLost,
    DeliveryTimeout,
    ProduceFailed,
    ProducerRefused,
    UnsupportedApi,
)
from tidelog.client.metadata import Leader
from tidelog.client.scope import TaskScope
from tidelog.client.sequencing import Sequencer
from tidelog.client.transactions.batches import TransactionalBatches
from tidelog.client.verdict import SAYS_METADATA_IS_STALE, SAYS_NUMBERS_ARE_WRONG, Verdict, judge
from tidelog.model import (
    NO_OFFSET,
    NO_TIMESTAMP,
    Acks,
    BrokerEndpoint,
    BrokerId,
    ErrorCode,
    ProducerIdentity,
    TopicId,
    TopicPartition,
)
from tidelog.records.compression import Codec
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_TOPIC_IDS_FROM = 13
_ZSTD_FROM = 7
_INITIAL_IDENTITY_TIMEOUT_MS = 60_000  # means nothing without a transactional id, but the field must be positive

_RETRY_CAUSES = {
    Verdict.RETRY_REFUSED: RetryCause.REFUSED,
    Verdict.RETRY_UNCERTAIN: RetryCause.UNCERTAIN,
    Verdict.RETRY_OUT_OF_SEQUENCE: RetryCause.OUT_OF_SEQUENCE,
}


class Sender:
    """Runs inside its producer's scope. `on_progress` is called whenever batches were settled or memory came free."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        runtime: ClientRuntime,
        *,
        accumulator: Accumulator,
        sequencer: Sequencer | None,
        on_progress: Callable[[], None],
    ) -> None:
        self.is_urgent = False
        self.transaction: TransactionalBatches | None = None
        """Which batches may leave, for a producer that writes transactions. Given before `run`."""
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._accumulator = accumulator
        self._sequencer = sequencer
        self._on_progress = on_progress
        self._wake = asyncio.Event()
        self._connecting: set[BrokerId] = set()
        self._throttled_until_ms: dict[BrokerId, float] = {}
        self._is_asking_identity = False
        self._refusal: ClientError | None = None
        self._identity_trouble: str | None = None  # why there is none yet, while one is asked for

    @property
    def refusal(self) -> ClientError | None:
        """Why this producer can never send anything, once the cluster has refused it an identity for good."""
        return self._refusal

    def wake(self) -> None:
        """Something may have become ready."""
        self._wake.set()

    async def run(self, scope: TaskScope) -> None:
        """Send until cancelled."""
        while True:
            self._wake.clear()
            next_look_ms = self._step(scope)
            if next_look_ms is None:
                await self._wake.wait()
                continue
            delay_ms = next_look_ms - self._runtime.clock.monotonic_ms()
            if delay_ms <= 0:
                continue
            try:
                async with asyncio.timeout(delay_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _step(self, scope: TaskScope) -> float | None:
        """Do what can be done now; returns when to look again if nothing wakes us before."""
        now_ms = self._runtime.clock.monotonic_ms()
        self._expire(now_ms)
        readiness = self._accumulator.ready(now_ms, is_urgent=self.is_urgent)
        if self._needs_identity and self._accumulator.used_bytes:
            self._ask_identity(scope)
        permitted = self._permitted(readiness.partitions)
        stuck = False
        for node, partitions in self._by_leader(permitted).items():
            stuck |= node is None or not self._serve(scope, node, partitions, now_ms)
        if not stuck:
            return now_ms if permitted else readiness.next_look_ms
        retry_ms = now_ms + max(self._config.retry_backoff_ms, 1)
        return retry_ms if readiness.next_look_ms is None else min(retry_ms, readiness.next_look_ms)

    @property
    def _needs_identity(self) -> bool:
        """Whether to ask any broker for one. A transactional producer has its own from its coordinator."""
        return self.transaction is None and self._sequencer is not None and self._sequencer.needs_identity

    def _permitted(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those whose batches may leave; the others wait for the coordinator, and somebody wakes us."""
        transaction = self.transaction
        return partitions if transaction is None else [each for each in partitions if transaction.may_send(each)]

    def _expire(self, now_ms: float) -> None:
        expired = self._accumulator.expire(now_ms)
        for batch in expired:
            error = DeliveryTimeout(
                batch.topic_partition,
                record_count=batch.record_count,
                waited_ms=now_ms - batch.created_ms,
                attempts=batch.attempts,
                cause=self.trouble_of(batch),
            )
            self._fail(batch, error)
        if expired:
            self._on_progress()

    def trouble_of(self, batch: OutgoingBatch) -> str | None:
        """Why a batch has not been acknowledged so far, as far as is known."""
        return batch.last_trouble or self._why_not_sent(batch.topic_partition)

    def _why_not_sent(self, topic_partition: TopicPartition) -> str | None:
        """What kept a batch here that was never tried."""
        if self._needs_identity:
            return f"no broker has given the producer an id: {self._identity_trouble or 'none has answered yet'}"
        leader = self._cluster.metadata.leader_of(topic_partition)
        if leader is None:
            return "nobody is known to lead the partition"
        if self._cluster.connection(leader.broker_id, Lane.PRODUCE) is None:
            is_failing = self._cluster.is_failing(leader.broker_id, Lane.PRODUCE)
            how = "cannot be reached" if is_failing else "is not connected yet"
            return f"broker {leader.broker_id}, which leads the partition, {how}"
        return None

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[BrokerId | None, list[TopicPartition]]:
        led: dict[BrokerId | None, list[TopicPartition]] = {}
        for topic_partition in partitions:
            leader = self._cluster.metadata.leader_of(topic_partition)
            if leader is None:
                self._cluster.want_refresh(topic_partition.topic)
            led.setdefault(None if leader is None else leader.broker_id, []).append(topic_partition)
        return led

    def _serve(self, scope: TaskScope, node: BrokerId, partitions: list[TopicPartition], now_ms: float) -> bool:
        """Send one request to a broker if it can take one; returns whether it was sent."""
        connection = self._cluster.connection(node, Lane.PRODUCE)
        if connection is None:
            if node not in self._connecting:
                self._connecting.add(node)
                scope.spawn(self._connect(node), name=f"producer connects to broker {node}")
            elif self._cluster.is_failing(node, Lane.PRODUCE):
                # Somebody else may lead by now, long before it is time to try this one again.
                self._cluster.want_refresh(*{key.topic: None for key in partitions})
            return False
        has_turn = connection.in_flight_count < self._config.max_in_flight_requests_per_connection
        if not (connection.can_send and has_turn and self._throttled_until_ms.get(node, 0.0) <= now_ms):
            connection.call_when_turn_comes(self.wake)
            return False
        batches = self._accumulator.drain(partitions)
        if batches:
            self._send(scope, node, connection, batches)
        return bool(batches)

    async def _connect(self, node: BrokerId) -> None:
        try:
            await self._cluster.connect(node, Lane.PRODUCE)
        except (ConnectionLost, BrokersUnreachable):
            self._cluster.want_refresh()
        finally:
            self._connecting.discard(node)
            self.wake()

    def _send(self, scope: TaskScope, node: BrokerId, connection: Connection, batches: list[OutgoingBatch]) -> None:
        try:
            version = self._version(connection, batches)
            request = self._request(batches)
            if self._config.acks is Acks.NONE:
                # To close the connection is all that a broker can do to say that it does not lead.
                connection.send_unanswered(request, on_loss=self._cluster.want_refresh, version=version)
                self._settle_unanswered(batches)
                return
            unanswered = connection.send(request, version=version)
        except ConnectionLost as loss:
            self._on_loss(batches, loss)
        except UnsupportedApi as error:
            self._give_up(batches, error)
        else:
            names = {topic.topic_id: topic.name for topic in request.topic_data}
            scope.spawn(self._await_answer(node, unanswered, batches, names), name=f"producer awaits broker {node}")

    def _version(self, connection: Connection, batches: list[OutgoingBatch]) -> int:
        version = connection.version_of(ApiKey.PRODUCE)
        if version < _ZSTD_FROM and any(batch.codec is Codec.ZSTD for batch in batches):
            raise UnsupportedApi(f"the broker at {connection.address} is too old for zstd")
        if self.transaction is not None:
            version = self.transaction.produce_version(version)
        has_ids = all(self._cluster.metadata.topic_id(batch.topic_partition.topic) for batch in batches)
        return version if has_ids else min(version, _TOPIC_IDS_FROM - 1)

    def _request(self, batches: Iterable[OutgoingBatch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            data = PartitionProduceData(index=batch.topic_partition.index, records=batch.encode())
            topics.setdefault(batch.topic_partition.topic, []).append(data)
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=tuple(
                TopicProduceData(name=name, topic_id=self._cluster.metadata.topic_id(name), partition_data=tuple(data))
                for name, data in topics.items()
            ),
        )

    async def _await_answer(
        self,
        node: BrokerId,
        unanswered: Unanswered[ProduceResponse],
        batches: list[OutgoingBatch],
        names: Mapping[TopicId | None, str],
    ) -> None:
        try:
            response = await unanswered.answer
        except ConnectionLost as loss:
            self._on_loss(batches, loss)
        else:
            self._throttled_until_ms[node] = self._runtime.clock.monotonic_ms() + response.throttle_time_ms
            self._on_answer(response, batches, names)
        self._on_progress()
        self.wake()

    def _on_answer(
        self, response: ProduceResponse, batches: Iterable[OutgoingBatch], names: Mapping[TopicId | None, str]
    ) -> None:
        endpoints = [BrokerEndpoint(e.node_id, e.host, e.port, e.rack) for e in response.node_endpoints]
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index): partition
            for topic in response.responses
            for partition in topic.partition_responses
        }
        for batch in batches:
            if batch.is_on_wire:
                answer = answers.get(batch.topic_partition) or _left_out(batch.topic_partition)
                self._on_partition_answer(batch, answer, endpoints)

    def _on_partition_answer(
        self, batch: OutgoingBatch, answer: PartitionProduceResponse, endpoints: list[BrokerEndpoint]
    ) -> None:
        if answer.error_code in SAYS_METADATA_IS_STALE:
            hint = Leader(answer.current_leader.leader_id, answer.current_leader.leader_epoch)
            if not self._cluster.metadata.on_leader_hint(batch.topic_partition, hint, endpoints):
                self._cluster.want_refresh(batch.topic_partition.topic)
        verdict = judge(
            answer.error_code,
            record_count=batch.record_count,
            is_idempotent=self._sequencer is not None,
            may_retry=batch.attempts <= self._config.retries and not self._ends_transaction(batch, answer.error_code),
        )
        match verdict:
            case Verdict.ACKNOWLEDGED:
                self._accumulator.acknowledge(batch)
                batch.succeed(answer.base_offset, answer.log_append_time_ms)
            case Verdict.SPLIT:
                self._accumulator.split(batch)
            case Verdict.FAILED:
                self._give_up([batch], ProduceFailed(batch.topic_partition, answer.error_code, _message(answer)))
            case _:
                message = _message(answer)
                batch.last_trouble = answer.error_code.name + (f": {message}" if message else "")
                self._accumulator.retry(batch, _RETRY_CAUSES[verdict], at_ms=self._retry_at_ms(batch))

    def _ends_transaction(self, batch: OutgoingBatch, code: ErrorCode) -> bool:
        """Whether the sequence check refused a transactional batch that was next: only its coordinator could give us another epoch."""
        if self.transaction is None or self._sequencer is None or code not in SAYS_NUMBERS_ARE_WRONG:
            return False
        return code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or self._sequencer.is_first_in_line(batch)

    def _on_loss(self, batches: Iterable[OutgoingBatch], loss: ConnectionLost) -> None:
        """No answer will come: the batches may or may not be in the log."""
        self._cluster.want_refresh()
        for batch in batches:
            if not batch.is_on_wire:
                continue
            if batch.attempts <= self._config.retries:
                batch.last_trouble = str(loss)
                self._accumulator.retry(batch, RetryCause.UNCERTAIN, at_ms=self._retry_at_ms(batch))
            else:
                self._give_up([batch], loss)

    def _give_up(self, batches: Iterable[OutgoingBatch], error: ClientError) -> None:
        for batch in batches:
            self._accumulator.give_up(batch)
            self._fail(batch, error)

    def _fail(self, batch: OutgoingBatch, error: ClientError) -> None:
        batch.fail(error)
        if self.transaction is not None:
            self.transaction.on_failed(error)

    def _settle_unanswered(self, batches: Iterable[OutgoingBatch]) -> None:
        for batch in batches:
            self._accumulator.acknowledge(batch)
            batch.succeed(NO_OFFSET, NO_TIMESTAMP)
        self._on_progress()

    def _retry_at_ms(self, batch: OutgoingBatch) -> float:
        delay_ms = self._config.retry_backoff.delay_ms(batch.attempts, self._runtime.randomness)
        return self._runtime.clock.monotonic_ms() + delay_ms

    def _ask_identity(self, scope: TaskScope) -> None:
        if not self._is_asking_identity and self._refusal is None:
            self._is_asking_identity = True
            scope.spawn(self._await_identity(), name="producer asks for its id")

    async def _await_identity(self) -> None:
        """InitProducerId until some broker grants one, or one refuses for good."""
        failures = 0
        code = await self._ask_for_identity()
        while code.is_retriable:
            failures += 1
            await asyncio.sleep(self._config.retry_backoff.delay_ms(failures, self._runtime.randomness) / 1000)
            code = await self._ask_for_identity()
        if code is not ErrorCode.NONE:
            self._refuse(code)
        self._is_asking_identity = False
        self.wake()

    async def _ask_for_identity(self) -> ErrorCode:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INITIAL_IDENTITY_TIMEOUT_MS)
        try:
            response = await self._cluster.request(None, request)
        except BrokersUnreachable as error:
            self._identity_trouble = str(error)
            return ErrorCode.NETWORK_EXCEPTION
        except UnsupportedApi:
            return ErrorCode.UNSUPPORTED_VERSION
        self._identity_trouble = response.error_code.name
        if response.error_code is ErrorCode.NONE and self._sequencer is not None:
            self._sequencer.adopt(ProducerIdentity(response.producer_id, response.producer_epoch))
        return response.error_code

    def _refuse(self, code: ErrorCode) -> None:
        """No batch can ever be numbered: fail what waits, and what comes."""
        self._refusal = ProducerRefused(code)
        for batch in self._accumulator.abandon():
            batch.fail(self._refusal)
        self._on_progress()


def _left_out(topic_partition: TopicPartition) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=topic_partition.index,
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
        base_offset=NO_OFFSET,
        error_message="the broker's answer leaves the partition out",
    )


def _message(answer: PartitionProduceResponse) -> str | None:
    """What the broker says is wrong, down to the first record it blames."""
    for error in answer.record_errors:
        return f"{answer.error_message or ''} (record {error.batch_index}: {error.batch_index_error_message})".strip()
    return answer.error_message
