"""Asking coordinators whether partitions are part of a transaction, on behalf of the leaders on this broker (KIP-890).

Up to version 1 producers add partitions themselves, and leaders have it verified; from version 2 on leaders add them. What goes to the same
broker at the same time goes in one request: whoever finds nobody asking takes everything along that waits, and brings all answers back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.broker.live_config import LiveConfig
from tidelog.broker.mail_order import MailOrder
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.coordinator.transaction.requests import JoinRequest, JoinResponse
from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import BrokerId, ErrorCode, ProducerId, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Codes: TypeAlias = dict[TopicPartition, ErrorCode]

_VERSION: Final = 5
_WAITING_MAX: Final = 10_000
"""Questions to one broker; as many as connections may have."""
_TRANSACTIONS_PER_REQUEST: Final = 500


class Coordinators(Protocol):
    """Where transactions are coordinated."""

    def coordinator_of(self, key: str, /) -> BrokerId | None:
        """The broker that looks after a transactional id; None while nobody does."""
        ...

    def join(self, request: JoinRequest, connection: int = 0) -> JoinResponse | Awaitable[JoinResponse]:
        """Ask the coordinator on this broker."""
        ...


class PeerRequests(Protocol):
    """How other brokers are asked."""

    async def request(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest, /, *, version: int | None = None
    ) -> AddPartitionsToTxnResponse:
        """One request. Raises ConnectionLost or UnsupportedApi."""
        ...


class _Subject(NamedTuple):
    """What is asked in the same words can be asked together."""

    transactional_id: str
    producer: ProducerIdentity
    is_verification: bool


class _Question(NamedTuple):
    subject: _Subject
    partitions: Sequence[TopicPartition]
    answer: asyncio.Future[Codes]


@dataclass(slots=True)
class _Line:
    """The way to one broker: one request at a time, with all that has come together meanwhile."""

    lock: asyncio.Lock
    waiting: list[_Question]

    def take(self) -> list[_Question]:
        """What can be asked now, in order; of one transactional id only one subject, for the answer names no more."""
        subjects: dict[str, _Subject] = {}
        taken: list[_Question] = []
        left: list[_Question] = []
        for question in self.waiting:
            if question.answer.done():
                continue  # Whoever asked is gone.
            transactional_id = question.subject.transactional_id
            is_room = transactional_id in subjects or len(subjects) < _TRANSACTIONS_PER_REQUEST
            if is_room and subjects.setdefault(transactional_id, question.subject) == question.subject:
                taken.append(question)
            else:
                left.append(question)
        self.waiting = left
        return taken


class TransactionMembership:
    """Asks, batches what goes the same way, and tries again where a transaction is just ending."""

    def __init__(self, config: LiveConfig, runtime: Runtime, coordinators: Coordinators, peers: PeerRequests) -> None:
        self._config = config
        self._clock = runtime.clock
        self._coordinators = coordinators
        self._peers = peers
        self._lines: dict[BrokerId, _Line] = {}
        self._took_ms = runtime.metrics.histogram("kafka_server_addpartitionstotxnmanager_verificationtimems")
        self._failures = runtime.metrics.counter("kafka_server_addpartitionstotxnmanager_verificationfailures_total")
        self.batch_order: Final = MailOrder[ProducerIdentity]()
        """By which connections batches came of producers whose transactions share an epoch; one that is fenced says nothing of the next."""
        self.marker_order: Final = MailOrder[tuple[ProducerId, str]]()
        """By which connections brokers have told how such transactions ended."""

    @property
    def is_verifying(self) -> bool:
        """Whether leaders have it verified what producers say they have added."""
        config = self._config.current
        return config.transaction_partition_verification_enable

    async def check(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        *,
        is_verification: bool,
    ) -> Codes:
        """Add partitions to a producer's transaction, or see whether they are part of it; one code for each.

        The codes are those of the coordinator, or NETWORK_EXCEPTION and COORDINATOR_NOT_AVAILABLE where it could not be asked. While the
        transaction before is ending the question is asked again for a short while: the client would do the same, from further away.
        """
        subject = _Subject(transactional_id, producer, is_verification)
        config = self._config.current
        begun_ms = self._clock.monotonic_ms()
        deadline_ms = begun_ms + config.transaction_join_retry_max_ms
        while True:
            codes = await self._ask(subject, partitions)
            is_ending = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values() and not is_verification
            if not is_ending or self._clock.monotonic_ms() + config.transaction_join_retry_ms > deadline_ms:
                break
            await asyncio.sleep(config.transaction_join_retry_ms / 1000)
        self._took_ms.observe(self._clock.monotonic_ms() - begun_ms)
        self._failures.add(sum(code is not ErrorCode.NONE for code in codes.values()))
        return codes

    # Inside.

    async def _ask(self, subject: _Subject, partitions: Sequence[TopicPartition]) -> Codes:
        broker_id = self._coordinators.coordinator_of(subject.transactional_id)
        if broker_id is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if broker_id == self._config.current.broker_id:
            return await self._ask_here(subject, partitions)
        line = self._lines.get(broker_id)
        if line is None:
            line = self._lines[broker_id] = _Line(asyncio.Lock(), [])
        if len(line.waiting) >= _WAITING_MAX:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        question = _Question(subject, partitions, asyncio.get_running_loop().create_future())
        line.waiting.append(question)
        try:
            while not question.answer.done():
                await self._take_turn(broker_id, line, question)
            return question.answer.result()
        finally:
            question.answer.cancel()  # Where the connection is lost nobody need ask any more.

    async def _ask_here(self, subject: _Subject, partitions: Sequence[TopicPartition]) -> Codes:
        answer = self._coordinators.join(
            JoinRequest(
                transactional_id=subject.transactional_id,
                producer=subject.producer,
                partitions=tuple(partitions),
                is_verification=subject.is_verification,
                client_version=TransactionVersion.ZERO if subject.is_verification else TransactionVersion.TWO,
            )
        )
        response = answer if isinstance(answer, JoinResponse) else await answer
        return _selected(response.codes, partitions)

    async def _take_turn(self, broker_id: BrokerId, line: _Line, question: _Question) -> None:
        """Wait until nobody asks this broker; if the answer has not come with that, ask for everybody who waits."""
        async with line.lock:
            if question.answer.done():
                return
            asked = line.take()
            codes: Callable[[_Question], Codes] = _unheard
            try:
                response = await self._peers.request(broker_id, _request(asked), version=_VERSION)
                codes = _Answers(response).of
            except (ConnectionLost, UnsupportedApi):
                pass
            finally:
                for one in asked:
                    if not one.answer.done():
                        one.answer.set_result(codes(one))


class _Answers:
    """What a coordinator said, by transactional id."""

    def __init__(self, response: AddPartitionsToTxnResponse) -> None:
        self._code = response.error_code
        self._by_id: dict[str, Codes] = {
            result.transactional_id: {
                TopicPartition(topic.name, row.partition_index): row.partition_error_code
                for topic in result.topic_results
                for row in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }

    def of(self, question: _Question) -> Codes:
        """One code for each partition."""
        if self._code is not ErrorCode.NONE:
            return dict.fromkeys(question.partitions, self._code)
        return _selected(self._by_id.get(question.subject.transactional_id, {}), question.partitions)


def _unheard(question: _Question) -> Codes:
    return dict.fromkeys(question.partitions, ErrorCode.NETWORK_EXCEPTION)


def _selected(codes: Mapping[TopicPartition, ErrorCode], partitions: Sequence[TopicPartition]) -> Codes:
    """What is not answered counts as not heard."""
    return {partition: codes.get(partition, ErrorCode.NETWORK_EXCEPTION) for partition in partitions}


def _request(questions: Sequence[_Question]) -> AddPartitionsToTxnRequest:
    by_subject: dict[_Subject, dict[str, dict[int, None]]] = {}
    for subject, partitions, _ in questions:
        topics = by_subject.setdefault(subject, {})
        for topic, index in partitions:
            topics.setdefault(topic, {})[index] = None
    return AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=subject.transactional_id,
                producer_id=subject.producer.producer_id,
                producer_epoch=subject.producer.producer_epoch,
                verify_only=subject.is_verification,
                topics=tuple(
                    AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes)) for topic, indexes in topics.items()
                ),
            )
            for subject, topics in by_subject.items()
        )
    )
