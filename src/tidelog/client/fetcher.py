"""Keeps fetches going: at most one in flight per broker, long polling, in incremental sessions (KIP-227).

Partitions are read from their leaders, or where those send us (KIP-392); the log of a new leader is checked before it is read (KIP-320).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.client.aborted import AbortedTransaction
from tidelog.client.assignment import Assignment, PartitionState, Reaction, Watermarks
from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ConsumerConfig
from tidelog.client.config_kinds import OffsetReset
from tidelog.client.connection import Connection
from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost, UnsupportedApi
from tidelog.client.fetch_session import FetchPlan, FetchSession, FetchTarget
from tidelog.client.fetched import FetchedRecords, ReadingRules
from tidelog.client.metadata import Leader
from tidelog.client.offsets import EARLIEST, LATEST, OffsetLookup
from tidelog.client.position_checks import PositionCheck, PositionChecks
from tidelog.client.position_questions import PositionQuestions
from tidelog.client.preferred_replicas import PreferredReplicas
from tidelog.client.scope import TaskScope
from tidelog.client.verdict import SAYS_METADATA_IS_STALE
from tidelog.model import (
    NO_LEADER_EPOCH,
    BrokerEndpoint,
    BrokerId,
    ErrorCode,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
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
        self._preferred = PreferredReplicas(lifetime_ms=config.metadata_max_age_ms)
        self._checks = PositionChecks(assignment)
        self._position_questions = PositionQuestions(cluster)
        self._doubted_since_ms: dict[TopicPartition, float] = {}  # leaders older than what was read already
        self._moving: set[int] = set()  # generations whose offsets are being looked up or checked
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
        self._observe_epochs(now_ms)
        self._begin_resets(scope, now_ms)
        self._begin_checks(scope, now_ms)
        sources, is_stuck = self._sources(now_ms)
        for node in sources:
            if node not in self._busy:
                self._busy.add(node)
                scope.spawn(self._fetch(node), name=f"consumer fetches from broker {node}")
        retry_ms = self._assignment.next_retry_ms(now_ms)
        delays = [self._config.retry_backoff_ms] if is_stuck else []
        return min([*delays, *([] if retry_ms is None else [retry_ms - now_ms])], default=None)

    def _observe_epochs(self, now_ms: float) -> None:
        for topic_partition in self._assignment.topic_partitions:
            leader = self._leader_of(topic_partition, now_ms)
            if leader is not None:
                self._checks.on_leader_epoch(topic_partition, leader.leader_epoch)

    def _leader_of(self, topic_partition: TopicPartition, now_ms: float) -> Leader | None:
        """Who leads, unless that is from before the epoch of a record that was read: a broker told it that has missed elections.

        It may also be that the topic was made anew since and its epochs started over; so the doubt ends after default.api.timeout.ms.
        """
        leader = self._cluster.metadata.leader_of(topic_partition)
        read_epoch = self._assignment.state(topic_partition).fetched_epoch
        if leader is None or not NO_LEADER_EPOCH < leader.leader_epoch < read_epoch:
            self._doubted_since_ms.pop(topic_partition, None)
            return leader
        since_ms = self._doubted_since_ms.setdefault(topic_partition, now_ms)
        return leader if now_ms - since_ms >= self._config.default_api_timeout_ms else None

    def _sources(self, now_ms: float) -> tuple[list[BrokerId], bool]:
        """Brokers to fetch from, and whether some partition has to wait for a leader or for a broker that throttles us."""
        sources: dict[BrokerId, None] = {}
        is_stuck = False
        for state in self._assignment.fetchable(now_ms):
            source = self._source_of(state.topic_partition, now_ms)
            if source is None:
                self._cluster.want_refresh(state.topic_partition.topic)
                is_stuck = True
            elif self._throttled_until_ms.get(source.broker_id, 0.0) > now_ms:
                is_stuck = True
            else:
                sources[source.broker_id] = None
                if self._cluster.is_failing(source.broker_id, Lane.FETCH):
                    # Somebody else may lead by now, long before it is time to try this one again.
                    self._cluster.want_refresh(state.topic_partition.topic)
                    is_stuck = True
        return list(sources), is_stuck

    def _source_of(self, topic_partition: TopicPartition, now_ms: float) -> Leader | None:
        """Who is to be asked for records, and the leader epoch in which; None while nobody leads."""
        leader = self._leader_of(topic_partition, now_ms)
        if leader is None:
            return None
        node = self._preferred.source_of(
            topic_partition, leader.broker_id, now_ms=now_ms, alive=self._cluster.metadata.brokers
        )
        return Leader(node, leader.leader_epoch)

    async def _fetch(self, node: BrokerId) -> None:
        """One fetch, from the plan to the buffers."""
        asked = self._questions(node)
        try:
            connection = await self._cluster.connect(node, Lane.FETCH)
            asked = self._questions(node)
            if asked:
                await self._fetch_over(connection, node, asked)
        except ConnectionLost:
            # No backoff: to this broker, attempts to connect are paced anyway, and by then others may lead.
            self._on_loss(node, asked)
        except BrokersUnreachable:
            self._on_loss(node, asked)
            self._back_off(asked)
        except UnsupportedApi as error:
            for topic_partition, question in asked.items():
                self._assignment.on_reset(topic_partition, question.generation, error)
        finally:
            self._busy.discard(node)
        self._on_arrival()
        self.wake()

    async def _fetch_over(self, connection: Connection, node: BrokerId, asked: Mapping[TopicPartition, _Asked]) -> None:
        session = self._sessions.setdefault(node, FetchSession())
        plan = session.plan(self._targets(asked))
        try:
            response = await self._ask(connection, plan)
        except ConnectionLost:
            session.on_failure()
            self._back_off(asked)
            raise
        self._throttled_until_ms[node] = self._runtime.clock.monotonic_ms() + response.throttle_time_ms
        session.on_answer(response.error_code, response.session_id)
        self._on_answer(node, session, plan, response, asked)

    def _on_loss(self, node: BrokerId, asked: Mapping[TopicPartition, _Asked]) -> None:
        for topic_partition in asked:
            self._preferred.forget(topic_partition, node)
        self._cluster.want_refresh()

    def _questions(self, node: BrokerId) -> dict[TopicPartition, _Asked]:
        """What to ask this broker now."""
        asked = {}
        now_ms = self._runtime.clock.monotonic_ms()
        self._observe_epochs(now_ms)
        for state in self._assignment.fetchable(now_ms):
            source = self._source_of(state.topic_partition, now_ms)
            if source is not None and source.broker_id == node and state.fetch_offset is not None:
                asked[state.topic_partition] = _Asked(state.generation, state.fetch_offset, source.leader_epoch)
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
            rack_id=self._config.client_rack or "",
        )

    def _on_answer(
        self,
        node: BrokerId,
        session: FetchSession,
        plan: FetchPlan,
        response: FetchResponse,
        asked: Mapping[TopicPartition, _Asked],
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
                if question is None:
                    continue
                if partition.error_code is ErrorCode.NONE:
                    self._on_partition(topic_partition, question, partition)
                elif self._preferred.forget(topic_partition, node):
                    self._on_replica_error(topic_partition, question, partition)
                else:
                    self._on_error(topic_partition, question, partition, endpoints)

    def _on_partition(self, topic_partition: TopicPartition, question: _Asked, answer: PartitionData) -> None:
        if answer.preferred_read_replica >= 0:
            if answer.preferred_read_replica not in self._cluster.metadata.brokers:
                # It came back after we had asked who is there: the leader would send us to it again and again.
                self._cluster.want_refresh(topic_partition.topic)
                self._back_off_one(topic_partition, question.generation)
                return
            now_ms = self._runtime.clock.monotonic_ms()
            self._preferred.on_told(topic_partition, answer.preferred_read_replica, now_ms=now_ms)
        fetched = FetchedRecords(
            topic_partition,
            answer.records or b"",
            fetch_offset=question.fetch_offset,
            aborted=[AbortedTransaction(t.producer_id, t.first_offset) for t in answer.aborted_transactions or ()],
            rules=self._rules,
        )
        watermarks = Watermarks(answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        self._assignment.on_fetched(topic_partition, question.generation, fetched, watermarks)

    def _on_replica_error(self, topic_partition: TopicPartition, question: _Asked, answer: PartitionData) -> None:
        """A replica that is not the leader failed us, whatever it said: only the leader knows what is out of range or gone."""
        if answer.error_code in SAYS_METADATA_IS_STALE:
            self._cluster.want_refresh(topic_partition.topic)
        self._back_off_one(topic_partition, question.generation)

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
        due = [s for s in self._assignment.resets_due(now_ms) if s.generation not in self._moving]
        if due:
            self._moving.update(state.generation for state in due)
            scope.spawn(self._reset(due), name="consumer looks up offsets")

    def _begin_checks(self, scope: TaskScope, now_ms: float) -> None:
        due = [check for check in self._checks.due(now_ms) if check.generation not in self._moving]
        if due:
            self._moving.update(check.generation for check in due)
            scope.spawn(self._check(due), name="consumer checks positions")

    async def _check(self, checks: list[PositionCheck]) -> None:
        """Learn whether new leaders have what was read; those that did not answer are asked again later."""
        try:
            answers = await self._position_questions.ask(checks)
            for check in checks:
                if check in answers:
                    self._checks.on_answer(check, answers[check])
                else:
                    self._back_off_one(check.topic_partition, check.generation)
        finally:
            self._moving.difference_update(check.generation for check in checks)
        self._on_arrival()
        self.wake()

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
            self._moving.difference_update(state.generation for state in states)
        self._on_arrival()
        self.wake()
