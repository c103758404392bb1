"""Markers: every partition of a decided transaction hears of it, whatever happens on the way, and then the machine does, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.broker.test_topic_view import topic
from tests.simulation.story import passed
from tidelog.broker.internal_topics import TRANSACTIONS_TOPIC
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.transaction_markers import MarkerSurroundings, TransactionMarkers
from tidelog.client.errors import ConnectionLost
from tidelog.controller import NO_BROKER, BrokerImage
from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.requests import MarkersWrittenRequest, MarkersWrittenResponse
from tidelog.model import BrokerId, ErrorCode, LeaderEpoch, ProducerIdentity, TopicPartition
from tidelog.runtime import Address
from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.world import World
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ME, OTHER, THIRD = 1, 2, 3
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
RETRIED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Room:
    """A sender on broker 1, and whoever it talks to."""

    def __init__(self) -> None:
        self.heard: list[
            tuple[BrokerId, TopicPartition, int, int]
        ] = []  # leader, partition, producer epoch, coordinator's
        self.requests: list[tuple[BrokerId, WriteTxnMarkersRequest]] = []
        self.codes: dict[TopicPartition, list[ErrorCode]] = {}  # what leaders say first; then NONE
        self.unreachable: set[BrokerId] = set()
        self.takes_s = 0.01
        self.epochs: dict[int, LeaderEpoch] = {0: 7, 1: 8}
        self.notes: list[MarkersWrittenRequest] = []
        self.note_codes: list[ErrorCode] = []  # likewise
        self.metadata = MetadataCache()
        brokers = {
            one: BrokerImage(broker_id=one, broker_epoch=1, endpoints={}, rack=None) for one in (ME, OTHER, THIRD)
        }
        self.metadata.take_brokers(brokers, controller_id=ME, controller_epoch=1)
        self.lead("t", ME, OTHER)
        self.lead("u", OTHER)
        self.lead(TRANSACTIONS_TOPIC, ME, ME, leader_epoch=8)
        self.metadata.is_whole = True

    def lead(self, name: str, *leaders: BrokerId, leader_epoch: LeaderEpoch = 0) -> None:
        """From now on these lead the partitions of a topic."""
        image = topic(name, *((ME, OTHER, THIRD) for _ in leaders), topic_id=UUID(int=len(name) + ord(name[0])))
        states = {
            index: replace(image.partitions[index], leader=leader, leader_epoch=leader_epoch)
            for index, leader in enumerate(leaders)
        }
        self.metadata.take_topics([replace(image, partitions=states)])

    # As the other side.

    def leader_epoch(self, index: int) -> LeaderEpoch | None:
        return self.epochs.get(index)

    def on_markers_written(self, request: MarkersWrittenRequest) -> MarkersWrittenResponse | Awaitable[Any]:
        self.notes.append(request)
        return MarkersWrittenResponse(code=self.note_codes.pop(0) if self.note_codes else ErrorCode.NONE)

    async def request(self, broker_id: BrokerId, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        assert broker_id != ME, "there is no need for a socket"
        return await self._answer(broker_id, request)

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return await self._answer(ME, request)

    async def _answer(self, leader: BrokerId, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requests.append((leader, request))
        await passed(self.takes_s)
        if leader in self.unreachable:
            raise ConnectionLost(Address("broker", 1), "gone")
        results = []
        for marker in request.markers:
            rows: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
            for of_topic in marker.topics:
                for index in of_topic.partition_indexes:
                    place = TopicPartition(of_topic.name, index)
                    said = self.codes.get(place, [])
                    code = said.pop(0) if said else ErrorCode.NONE
                    if code is ErrorCode.NONE:
                        self.heard.append((leader, place, marker.producer_epoch, marker.coordinator_epoch))
                    rows.setdefault(of_topic.name, []).append(
                        WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                    )
            topics = tuple(WritableTxnMarkerTopicResult(name=name, partitions=tuple(of)) for name, of in rows.items())
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=tuple(results))

    # As the test.

    @property
    def told(self) -> list[TopicPartition]:
        return sorted(place for _, place, *_ in self.heard)

    def tell(self, story: Callable[[TransactionMarkers], Coroutine[Any, Any, None]]) -> str:
        """Run a story with a sender; the trace."""
        with World() as world:
            runtime = world.node("broker").runtime
            self.clock = cast("SimulatedClock", runtime.clock)
            markers = TransactionMarkers(MarkerSurroundings(ME, runtime, self.metadata, self), self)

            async def told() -> None:
                async with markers.running(self.write):
                    await story(markers)

            world.run(told())
            return world.trace.text()


def errand(
    *partitions: TopicPartition, transactional_id: str = "x", producer_id: int = 5, epoch: int = 3
) -> SendMarkers:
    return SendMarkers(
        transactional_id=transactional_id,
        producer=ProducerIdentity(producer_id, epoch),
        is_committed=True,
        partitions=partitions,
        has_own_epoch=True,
        decided_ms=1,
    )


def test_every_leader_hears_of_its_partitions_and_then_the_machine_once() -> None:
    room, what = Room(), errand(T0, T1, U0)

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, what)
        await passed(1)
        assert markers.errand_count == 0

    room.tell(story)
    assert sorted(room.heard) == [(ME, T0, 3, 7), (OTHER, T1, 3, 7), (OTHER, U0, 3, 7)]
    assert len(room.requests) == 2, "one for each broker"
    assert room.notes == [what.written()]


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    room = Room()

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand())
        await passed(0.1)

    room.tell(story)
    assert (room.requests, len(room.notes)) == ([], 1)


def test_whoever_was_answered_gets_a_core_before_many_markers_are_written() -> None:
    """Threads of a producer that hears of its commit may be queued for the core on which the markers are written."""
    room, ways_given = Room(), []
    room.lead("many", *[ME] * 10)

    async def story(markers: TransactionMarkers) -> None:
        clock = room.clock
        for count in (1, 10):
            before = clock.ways_given
            markers.send(0, errand(*(TopicPartition("many", index) for index in range(count))))
            ways_given.append((clock.ways_given - before, len(room.requests)))
            await passed(1)

    room.tell(story)
    assert ways_given == [(0, 0), (1, 1)], "a single marker takes no longer than a change of threads"


@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
def test_what_may_pass_is_tried_again_at_whoever_leads_by_then(code: ErrorCode) -> None:
    room = Room()
    room.codes[T1] = [code, code]

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(0.02)
        room.lead("t", ME, THIRD)
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert sorted(room.heard) == [(ME, T0, 3, 7), (THIRD, T1, 3, 7)], "what was told is not told again"
    assert len(room.notes) == 1


def test_a_partition_that_has_met_a_later_epoch_of_the_producer_does_not_keep_the_others_waiting() -> None:
    room, what = Room(), errand(T0, T1, U0)
    room.codes[T1] = [ErrorCode.INVALID_PRODUCER_EPOCH]
    room.codes[T0] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, what)
        await passed(5)
        assert markers.errand_count == 0

    trace = room.tell(story)
    assert (room.told, room.notes) == ([T0, U0], [what.written((T1,))])
    assert "no marker" in trace
    assert "partition=t-1 reason=INVALID_PRODUCER_EPOCH" in trace


def test_the_errands_of_two_producer_ids_of_a_transactional_id_are_both_run() -> None:
    """What the former one has left open is aborted while the next one is at work already."""
    room, former, following = Room(), errand(T1, producer_id=5), errand(T0, producer_id=6)
    room.unreachable = {OTHER}

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, former)
        markers.send(0, following)
        await passed(1)
        assert markers.errand_count == 1
        room.unreachable = set()
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert room.told == [T0, T1]
    assert room.notes == [following.written(), former.written()]


def test_a_coordinator_that_was_fenced_and_leads_again_tells_what_the_other_did_not() -> None:
    """The other led for a while, told one partition and was gone; this one never heard that it had not been leading."""
    room = Room()
    room.codes[T1] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 2
    room.codes[T0] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(0.04)
        assert (room.heard, markers.errand_count) == ([], 1)
        room.epochs[0] = 9
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert sorted(room.heard) == [(ME, T0, 3, 9), (OTHER, T1, 3, 9)]
    assert len(room.notes) == 1


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_a_partition_that_can_have_no_marker_is_left_out_and_said_to_be(code: ErrorCode) -> None:
    room = Room()
    room.codes[T1] = [code]

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(1)
        assert markers.errand_count == 0

    trace = room.tell(story)
    assert (room.told, len(room.notes)) == ([T0], 1)
    assert (
        f"no marker transactional_id=x producer_id=5 producer_epoch=3 is_committed=True partition=t-1 reason={code.name}"
        in trace
    )


def test_a_broker_that_is_lost_is_tried_again_until_it_or_another_answers() -> None:
    room = Room()
    room.unreachable = {OTHER}

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(20)
        assert (room.told, markers.errand_count) == ([T0], 1)
        assert len(room.requests) < 25, "in ever longer intervals"
        room.unreachable = set()
        await passed(3)
        assert markers.errand_count == 0

    trace = room.tell(story)
    assert (room.told, len(room.notes)) == ([T0, T1], 1)
    assert trace.count("markers are sent again") == 1, "an operator is told when it takes long, and not each time"


@pytest.mark.parametrize("leader", [NO_BROKER, 9], ids=["nobody leads", "the leader is not alive"])
def test_a_partition_without_a_leader_is_waited_for(leader: BrokerId) -> None:
    room = Room()
    room.lead("t", ME, leader)

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(60)
        assert (room.told, markers.errand_count) == ([T0], 1)
        room.lead("t", ME, OTHER)
        await passed(3)
        assert markers.errand_count == 0

    room.tell(story)
    assert (room.told, len(room.notes)) == ([T0, T1], 1)


def test_a_partition_that_is_deleted_is_waited_for_no_more_after_a_while() -> None:
    room = Room()
    room.metadata.take_topics([], gone=["u"])

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, U0, TopicPartition("t", 9)))
        await passed(4)
        assert markers.errand_count == 1, "perhaps it was not told yet"
        await passed(4)
        assert markers.errand_count == 0

    room.tell(story)
    assert (room.told, len(room.notes)) == ([T0], 1)


def test_a_topic_that_was_only_told_late_gets_its_marker() -> None:
    room = Room()
    room.metadata.take_topics([], gone=["u"])

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(U0))
        await passed(4)
        room.lead("u", OTHER)
        await passed(3)
        assert markers.errand_count == 0

    room.tell(story)
    assert (room.told, len(room.notes)) == ([U0], 1)


@pytest.mark.parametrize("untold", ["everything", "the rest", "that we lead"])
def test_partitions_are_not_taken_for_deleted_before_the_topics_were_told(untold: str) -> None:
    """Leaderships are told before topics, and whoever tells may die in between: the next controller takes its time."""
    room = Room()
    room.metadata.take_topics([], gone=["t", "u"])
    if untold == "everything":
        room.metadata.take_topics([], gone=[TRANSACTIONS_TOPIC])
    room.metadata.is_whole = untold == "that we lead"
    room.epochs[0] = 9 if untold == "that we lead" else 8

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, U0))
        await passed(60)
        assert (markers.errand_count, room.notes) == (1, [])
        room.lead(TRANSACTIONS_TOPIC, ME, ME, leader_epoch=9)
        room.lead("t", ME, OTHER)
        room.metadata.is_whole = True
        await passed(3)
        assert room.told == [T0]
        await passed(10)
        assert markers.errand_count == 0, "the other was deleted"

    room.tell(story)
    assert (room.told, len(room.notes)) == ([T0], 1)


def test_markers_carry_the_epoch_under_which_the_coordinator_leads_when_they_are_sent() -> None:
    room = Room()
    room.codes[T1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(0.02)
        room.epochs[0] = 9
        await passed(1)

    room.tell(story)
    assert sorted(room.heard) == [(ME, T0, 3, 7), (OTHER, T1, 3, 9)]
    assert len(room.notes) == 1


def test_what_is_led_elsewhere_is_sent_no_more_and_others_are() -> None:
    room = Room()
    room.unreachable = {OTHER}

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T1))
        markers.send(1, errand(U0, transactional_id="y", producer_id=6))
        await passed(0.02)
        markers.forget(0)
        room.unreachable = set()
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert room.heard == [(OTHER, U0, 3, 8)]
    assert [note.transactional_id for note in room.notes] == ["y"]


def test_a_coordinator_that_leads_no_more_sends_nothing_in_its_last_moment() -> None:
    room = Room()
    room.codes[T1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(0.02)
        del room.epochs[0]
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert (room.told, room.notes) == ([T0], [])


def test_a_later_errand_for_the_same_producer_id_takes_the_place_of_the_earlier() -> None:
    room = Room()
    room.unreachable = {OTHER}

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T1))
        await passed(0.005)
        later = errand(T0, T1, epoch=4)
        markers.send(0, later)
        await passed(1)
        room.unreachable = set()
        await passed(5)
        assert (markers.errand_count, room.notes) == (0, [later.written()])

    room.tell(story)
    assert sorted(room.heard) == [(ME, T0, 4, 7), (OTHER, T1, 4, 7)]


def test_the_machine_is_told_until_it_has_noted_it() -> None:
    room = Room()
    room.note_codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT]

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0))
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert (room.told, len(room.notes)) == ([T0], 3)


def test_a_machine_that_is_gone_is_told_nothing() -> None:
    room = Room()
    room.note_codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0))
        await passed(0.1)
        del room.epochs[0]
        told_by_then = len(room.notes)
        await passed(10)
        assert (markers.errand_count, len(room.notes)) == (0, told_by_then)

    room.tell(story)


def test_many_transactions_travel_together_and_few_requests_are_under_way() -> None:
    room = Room()
    room.takes_s = 0.5

    async def story(markers: TransactionMarkers) -> None:
        for number in range(2_000):
            markers.send(0, errand(T1, transactional_id=f"x{number}", producer_id=number))
        await passed(0.1)
        assert len(room.requests) == 5
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert len(room.heard) == len(room.notes) == 2_000
    assert len(room.requests) < 20
    assert (
        max(
            sum(len(of.partition_indexes) for one in request.markers for of in one.topics)
            for _, request in room.requests
        )
        <= 500
    )


def test_a_transaction_of_very_many_partitions_is_told_in_pieces() -> None:
    room = Room()
    room.lead("t", *((ME, OTHER) * 1_000))
    everything = tuple(TopicPartition("t", index) for index in range(2_000))

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(*everything))
        await passed(5)
        assert markers.errand_count == 0

    room.tell(story)
    assert (room.told, len(room.notes)) == (list(everything), 1)


def test_whoever_stops_leaves_nothing_running() -> None:
    room = Room()
    room.unreachable = {OTHER}
    room.takes_s = 100.0

    async def story(markers: TransactionMarkers) -> None:
        markers.send(0, errand(T0, T1))
        await passed(1)

    room.tell(story)
    assert room.notes == []
