"""A room of transactional producers: says in one word what they ask, and what the coordinator knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.coordinator.driving import Driver
from tidelog.coordinator import Machine, Moment
from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.records import read_record, state_record
from tidelog.coordinator.transaction.requests import JoinRequest, MarkersWrittenRequest
from tidelog.coordinator.transaction.settings import TransactionSettings
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerId, ProducerIdentity, TopicPartition
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest, TopicData
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

NAME = "payments"
TIMEOUT_MS = 60_000
NEWEST_INIT, OLD_END, NEWEST_END, NEWEST_JOIN = 6, 4, 5, 5
P0, P1, P2 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("stock", 0)


class Ids:
    """Numbers from 1,000 on, as long as there are some."""

    def __init__(self) -> None:
        self.next_id = 1_000
        self.is_dry = False

    def take(self) -> ProducerId | None:
        if self.is_dry:
            return None
        self.next_id += 1
        return self.next_id - 1


class SkewedDriver(Driver):
    """Brokers whose wall clocks disagree."""

    def __init__(self, make: Callable[[], Machine]) -> None:
        self.skew_ms = 0
        super().__init__(make)

    @property
    def now(self) -> Moment:
        wall_ms, monotonic_ms = super().now
        return Moment(wall_ms + self.skew_ms, monotonic_ms)


@dataclass
class Room:
    """One partition of `__transaction_state`; `version` is that of the protocol which producers speak."""

    version: TransactionVersion = TransactionVersion.TWO
    settings: TransactionSettings = field(default_factory=lambda: TransactionSettings(is_two_phase_enabled=True))
    ids: Ids = field(default_factory=Ids)
    has_lost_records: bool = False

    def __post_init__(self) -> None:
        self.driver = SkewedDriver(
            lambda: TransactionMachine(lambda: self.settings, self.ids, lambda: self.has_lost_records)
        )

    def set(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)

    # Requests.

    def init(
        self,
        producer: ProducerIdentity | None = None,
        *,
        name: str | None = NAME,
        version: int = NEWEST_INIT,
        connection: int = 0,
        **more: Any,
    ) -> InitProducerIdResponse:
        pair = producer or ProducerIdentity(-1, -1)
        fields = {
            "transaction_timeout_ms": TIMEOUT_MS,
            "producer_id": pair.producer_id,
            "producer_epoch": pair.producer_epoch,
        }
        request = InitProducerIdRequest(transactional_id=name, **{**fields, **more})
        response: InitProducerIdResponse = self.driver.ask(request, version=version, connection=connection)
        return response

    def producer(self, producer: ProducerIdentity | None = None, *, name: str = NAME, **more: Any) -> ProducerIdentity:
        """The pair that a producer gets."""
        response = self.init(producer, name=name, **more)
        assert response.error_code is ErrorCode.NONE
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    def join_codes(
        self,
        producer: ProducerIdentity,
        *partitions: TopicPartition,
        name: str = NAME,
        version: int = NEWEST_JOIN,
        connection: int = 0,
        is_verification: bool = False,
    ) -> dict[TopicPartition, ErrorCode]:
        request = JoinRequest(
            transactional_id=name,
            producer=producer,
            partitions=partitions,
            is_verification=is_verification,
            client_version=self.version,
        )
        return dict(self.driver.ask(request, version=version, connection=connection).codes)

    def join(self, producer: ProducerIdentity, *partitions: TopicPartition, **more: Any) -> ErrorCode:
        """The one code that all partitions get."""
        (code,) = set(self.join_codes(producer, *(partitions or (P0,)), **more).values())
        return code

    def ask_end(
        self,
        producer: ProducerIdentity,
        *,
        is_committed: bool,
        name: str = NAME,
        version: int | None = None,
        connection: int = 0,
    ) -> EndTxnResponse:
        is_new = self.version is TransactionVersion.TWO
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_committed,
        )
        by = (NEWEST_END if is_new else OLD_END) if version is None else version
        response: EndTxnResponse = self.driver.ask(request, version=by, connection=connection)
        return response

    def end(self, producer: ProducerIdentity, *, is_committed: bool, **more: Any) -> ErrorCode:
        return self.ask_end(producer, is_committed=is_committed, **more).error_code

    def ended(self, producer: ProducerIdentity, *, is_committed: bool = True, **more: Any) -> ProducerIdentity:
        """The pair of the next transaction."""
        response = self.ask_end(producer, is_committed=is_committed, **more)
        assert response.error_code is ErrorCode.NONE
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    def describe(self, name: str = NAME) -> Any:
        (state,) = self.driver.ask(DescribeTransactionsRequest(transactional_ids=(name,)), version=0).transaction_states
        return state

    def listed(self, **filters: Any) -> list[str]:
        response: ListTransactionsResponse = self.driver.ask(ListTransactionsRequest(**filters), version=2)
        assert response.error_code is ErrorCode.NONE
        return sorted(state.transactional_id for state in response.transaction_states)

    # Markers.

    @property
    def errands(self) -> list[SendMarkers]:
        errands = [errand for errand in self.driver.errands if isinstance(errand, SendMarkers)]
        assert len(errands) == len(self.driver.errands)
        return errands

    def report(self, errand: SendMarkers) -> ErrorCode:
        """All partitions of an errand have their markers."""
        return self.ask_written(errand.written())

    def ask_written(self, request: MarkersWrittenRequest) -> ErrorCode:
        code: ErrorCode = self.driver.ask(request, version=0).code
        return code

    def write_markers(self) -> None:
        """Run all errands."""
        while self.driver.errands:
            errand = self.errands[0]
            assert self.report(errand) is ErrorCode.NONE
            self.driver.errands.remove(errand)

    # What is known.

    @property
    def state(self) -> TransactionState:
        """As its last record says."""
        return self.state_of(NAME)

    def state_of(self, name: str) -> TransactionState:
        remembered = [read_record(record) for record in self.driver.log]
        state = next(state for known, state in reversed(remembered) if known == name)
        assert state is not None
        return state

    def status(self) -> TransactionStatus:
        return self.state.status

    # Where to begin.

    def reach(self, status: TransactionStatus) -> ProducerIdentity:
        """Bring the id into a state; the pair that its producer holds there."""
        producer = self.producer()
        if status is TransactionStatus.EMPTY:
            return producer
        assert self.join(producer, P0, P1) is ErrorCode.NONE
        if status is TransactionStatus.ONGOING:
            return producer
        is_committed = status in {TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT}
        producer = self.ended(producer, is_committed=is_committed)
        if not status.is_decided:
            self.write_markers()
        return producer

    def wear_out(self, producer: ProducerIdentity, epoch: int) -> ProducerIdentity:
        """The id has been used so often that its epoch is this one."""
        state = replace(self.state, producer_epoch=epoch)
        self.put(state)
        return ProducerIdentity(producer.producer_id, epoch)

    def put(self, state: TransactionState) -> None:
        """Write a state as if it had come about, and have another broker take over."""
        self.driver.log.append(state_record(state, self.settings.version))
        self.driver.fail_over()


def before(producer: ProducerIdentity) -> ProducerIdentity:
    """The pair with the epoch before."""
    return ProducerIdentity(producer.producer_id, producer.producer_epoch - 1)


def after(producer: ProducerIdentity, by: int = 1) -> ProducerIdentity:
    """The pair with a later epoch."""
    return ProducerIdentity(producer.producer_id, producer.producer_epoch + by)


def topics(*data: tuple[str, tuple[int, ...]]) -> tuple[TopicData, ...]:
    return tuple(TopicData(topic=topic, partitions=partitions) for topic, partitions in data)
