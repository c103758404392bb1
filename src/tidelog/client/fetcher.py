"""Keeps fetches going: at most one in flight per broker, long polling, in incremental sessions (KIP-227)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.client.aborted import AbortedTransaction
from tidelog.client.assignment import Assignment, PartitionState, Reaction, Watermarks
from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ConsumerConfig, OffsetReset
from tidelog.client.connection import Connection
from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost, UnsupportedApi
from tidelog.client.fetch_session import FetchPlan, FetchSession, FetchTarget
from tidelog.client.fetched import FetchedRecords, ReadingRules
from tidelog.client.metadata import Leader
from tidelog.client.offsets import EARLIEST, LATEST, OffsetLookup
from tidelog.client.scope import TaskScope
from tidelog.model import BrokerEndpoint, BrokerId, ErrorCode, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

_TOPIC_IDS_FROM: Final = 13
_SESSIONS_FROM: Final = 7


class _Asked(NamedTuple):
    """What was asked of a partition, to tell whether the answer still matters."""

    generation: int
    fetch_offset: Offset
    leader_epoch: LeaderEpoch


class Fetcher:
    """Runs inside its consumer's scope, filling the assignment's buffers. `on_arrival` is called when there may be something to poll."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        runtime: ClientRuntime,
        *,
        assignment: Assignment,
        on_arrival: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._assignment = assignment
        self._on_arrival = on_arrival
        self._lookup = OffsetLookup(cluster, config, runtime, config.isolation_level)
        self._rules = ReadingRules(
            isolation_level=config.isolation_level,
            checks_crcs=config.check_crcs,
            batch_bytes_max=config.receive_message_max_bytes,
        )
        self._sessions: dict[BrokerId, FetchSession] = {}
        self._busy: set[BrokerId] = set()
        self._throttled_until_ms: dict[BrokerId, float] = {}
        self._resetting: set[int] = set()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Positions, buffers or metadata have changed."""
        self._wake.set()

    async def run(self, scope: TaskScope) -> None:
        """Fetch until cancelled."""
        while True:
            self._wake.clear()
            delay_ms = self._step(scope)
            try:
                async with asyncio.timeout(None if delay_ms is None else max(delay_ms, 1) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _step(self, scope: TaskScope) -> float | None:
        """Begin what can be begun now; returns how long to wait if nothing wakes us before."""
        now_ms = self._runtime.clock.monotonic_ms()
        self._cluster.track(*{topic_partition.topic: None for topic_partition in self._assignment.topic_partitions})
        self._begin_resets(scope, now_ms)
        leaders, is_stuck = self._leaders(now_ms)
        for node in leaders:
            if node not in self._busy:
                self._busy.add(node)
                scope.spawn(self._fetch(node), name=f"consumer fetches from broker {node}")
        retry_ms = self._assignment.next_retry_ms(now_ms)
        delays = [self._config.retry_backoff_ms] if is_stuck else []
        return min([*delays, *([] if retry_ms is None else [retry_ms - now_ms])], default=None)

    def _leaders(self, now_ms: float) -> tuple[list[BrokerId], bool]:
        """Brokers to fetch from, and whether some partition has to wait for a leader or for a broker that throttles us."""
        leaders: dict[BrokerId, None] = {}
        is_stuck = False
        for state in self._assignment.fetchable(now_ms):
            leader = self._cluster.metadata.leader_of(state.topic_partition)
            if leader is None:
                self._cluster.want_refresh(state.topic_partition.topic)
                is_stuck = True
            elif self._throttled_until_ms.get(leader.broker_id, 0.0) > now_ms:
                is_stuck = True
            else:
                leaders[leader.broker_id] = None
        return list(leaders), is_stuck

    async def _fetch(self, node: BrokerId) -> None:
        """One fetch, from the plan to the buffers."""
        session = self._sessions.setdefault(node, FetchSession())
        asked = self._questions(node)
        try:
            connection = await self._cluster.connect(node, Lane.FETCH)
            asked = self._questions(node)
            if asked:
                plan = session.plan(self._targets(asked))
                response = await self._ask(connection, plan)
                self._throttled_until_ms[node] = self._runtime.clock.monotonic_ms() + response.throttle_time_ms
                session.on_answer(response.error_code, response.session_id)
                self._on_answer(session, plan, response, asked)
        except (ConnectionLost, BrokersUnreachable):
            session.on_failure()
            self._cluster.want_refresh()
            self._back_off(asked)
        except UnsupportedApi as error:
            for topic_partition, question in asked.items():
                self._assignment.on_reset(topic_partition, question.generation, error)
        finally:
            self._busy.discard(node)
        self._on_arrival()
        self.wake()

    def _questions(self, node: BrokerId) -> dict[TopicPartition, _Asked]:
        """What to ask this broker now."""
        asked = {}
        for state in self._assignment.fetchable(self._runtime.clock.monotonic_ms()):
            leader = self._cluster.metadata.leader_of(state.topic_partition)
            if leader is not None and leader.broker_id == node and state.fetch_offset is not None:
                asked[state.topic_partition] = _Asked(state.generation, state.fetch_offset, leader.leader_epoch)
        return asked

    async def _ask(self, connection: Connection, plan: FetchPlan) -> FetchResponse:
        version = connection.version_of(ApiKey.FETCH)
        if not plan.uses_topic_ids:
            version = min(version, _TOPIC_IDS_FROM - 1)
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        return await connection.request(self._request(plan, version), version=version, timeout_ms=timeout_ms)

    def _targets(self, asked: Mapping[TopicPartition, _Asked]) -> dict[TopicPartition, FetchTarget]:
        return {
            topic_partition: FetchTarget(
                topic_id=self._cluster.metadata.topic_id(topic_partition.topic),
                fetch_offset=question.fetch_offset,
                leader_epoch=question.leader_epoch,
                max_bytes=self._config.max_partition_fetch_bytes,
            )
            for topic_partition, question in asked.items()
        }

    def _request(self, plan: FetchPlan, version: int) -> FetchRequest:
        topics: dict[tuple[str, TopicId | None], list[FetchPartition]] = {}
        for topic_partition, target in plan.send.items():
            topics.setdefault((topic_partition.topic, target.topic_id), []).append(
                FetchPartition(
                    partition=topic_partition.index,
                    current_leader_epoch=target.leader_epoch,
                    fetch_offset=target.fetch_offset,
                    partition_max_bytes=target.max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=self._config.isolation_level,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch if version >= _SESSIONS_FROM else -1,
            topics=tuple(
                FetchTopic(topic=name, topic_id=topic_id, partitions=tuple(partitions))
                for (name, topic_id), partitions in topics.items()
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(topic=key.topic, topic_id=topic_id, partitions=(key.index,))
                for key, topic_id in plan.forget.items()
            ),
        )

    def _on_answer(
        self, session: FetchSession, plan: FetchPlan, response: FetchResponse, asked: Mapping[TopicPartition, _Asked]
    ) -> None:
        if response.error_code is not ErrorCode.NONE:
            # A session that is gone is begun anew at once; a broker that refuses even that is left alone for a while.
            if plan.is_full:
                self._back_off(asked)
            return
        endpoints = [BrokerEndpoint(e.node_id, e.host, e.port, e.rack) for e in response.node_endpoints]
        for topic in response.responses:
            name = topic.topic if topic.topic_id is None else session.name_of(topic.topic_id)
            for partition in topic.partitions:
                topic_partition = TopicPartition(name or "", partition.partition_index)
                question = asked.get(topic_partition)
                if question is not None:
                    self._on_partition(topic_partition, question, partition, endpoints)

    def _on_partition(
        self,
        topic_partition: TopicPartition,
        question: _Asked,
        answer: PartitionData,
        endpoints: list[BrokerEndpoint],
    ) -> None:
        if answer.error_code is not ErrorCode.NONE:
            self._on_error(topic_partition, question, answer, endpoints)
            return
        fetched = FetchedRecords(
            topic_partition,
            answer.records or b"",
            fetch_offset=question.fetch_offset,
            aborted=[AbortedTransaction(t.producer_id, t.first_offset) for t in answer.aborted_transactions or ()],
            rules=self._rules,
        )
        watermarks = Watermarks(answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        self._assignment.on_fetched(topic_partition, question.generation, fetched, watermarks)

    def _on_error(
        self,
        topic_partition: TopicPartition,
        question: _Asked,
        answer: PartitionData,
        endpoints: list[BrokerEndpoint],
    ) -> None:
        reaction = self._assignment.on_error(topic_partition, question.generation, answer.error_code)
        if reaction is Reaction.NOTHING:
            return
        if reaction is Reaction.REFRESH_METADATA:
            hint = Leader(answer.current_leader.leader_id, answer.current_leader.leader_epoch)
            if self._cluster.metadata.on_leader_hint(topic_partition, hint, endpoints):
                return
            self._cluster.want_refresh(topic_partition.topic)
        self._back_off({topic_partition: question})

    def _back_off(self, asked: Mapping[TopicPartition, _Asked]) -> None:
        for topic_partition, question in asked.items():
            self._back_off_one(topic_partition, question.generation)

    def _back_off_one(self, topic_partition: TopicPartition, generation: int) -> None:
        self._assignment.back_off(
            topic_partition,
            generation,
            now_ms=self._runtime.clock.monotonic_ms(),
            delay_ms=lambda failures: self._config.retry_backoff.delay_ms(failures, self._runtime.randomness),
        )

    def _begin_resets(self, scope: TaskScope, now_ms: float) -> None:
        due = [s for s in self._assignment.resets_due(now_ms) if s.generation not in self._resetting]
        if due:
            self._resetting.update(state.generation for state in due)
            scope.spawn(self._reset(due), name="consumer looks up offsets")

    async def _reset(self, states: list[PartitionState]) -> None:
        """Find where to go, and go there; partitions nobody answered for are asked about again later."""
        wanted = {s.topic_partition: EARLIEST if s.reset is OffsetReset.EARLIEST else LATEST for s in states}
        try:
            answers = await self._lookup.ask(wanted)
            for state in states:
                answer = answers.get(state.topic_partition)
                if answer is None:
                    self._back_off_one(state.topic_partition, state.generation)
                else:
                    outcome = answer if isinstance(answer, ClientError) else answer.offset
                    self._assignment.on_reset(state.topic_partition, state.generation, outcome)
        finally:
            self._resetting.difference_update(state.generation for state in states)
        self._on_arrival()
        self.wake()
