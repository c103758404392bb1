"""Leaders ask coordinators: what goes the same way goes together, and everybody gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from tests.simulation.story import passed
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.transaction_membership import TransactionMembership
from tidelog.client.errors import ConnectionLost
from tidelog.config import BrokerConfig
from tidelog.coordinator.transaction.requests import JoinRequest, JoinResponse
from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import BrokerId, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Address
from tidelog.simulation.world import World
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

ME, OTHER = 1, 2
P, Q = ProducerIdentity(5, 0), ProducerIdentity(6, 3)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
OK = ErrorCode.NONE


class Room:
    """Coordinators on this broker and on another. Ids that begin with "my" are ours; those with "no" have none."""

    def __init__(self) -> None:
        self.asked_here: list[JoinRequest] = []
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.codes: list[dict[TopicPartition, ErrorCode]] = []  # what is said first; then NONE
        self.error = ErrorCode.NONE
        self.is_reachable = True
        self.is_mute = False
        self.failures = 0.0

    def coordinator_of(self, key: str) -> BrokerId | None:
        return None if key.startswith("no") else ME if key.startswith("my") else OTHER

    def join(self, request: JoinRequest, connection: int = 0) -> JoinResponse:
        assert connection == 0
        self.asked_here.append(request)
        said = self.codes.pop(0) if self.codes else {}
        return JoinResponse(codes={partition: said.get(partition, OK) for partition in request.partitions})

    async def request(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest, *, version: int | None = None
    ) -> AddPartitionsToTxnResponse:
        assert (broker_id, version) == (OTHER, 5)
        self.requests.append(request)
        await passed(0.01)
        if not self.is_reachable:
            raise ConnectionLost(Address("other", 1), "gone")
        said = self.codes.pop(0) if self.codes else {}
        results = [
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id,
                topic_results=tuple(
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=said.get(TopicPartition(topic.name, index), OK),
                            )
                            for index in topic.partitions
                        ),
                    )
                    for topic in one.topics
                ),
            )
            for one in request.transactions
        ]
        return AddPartitionsToTxnResponse(
            error_code=self.error, results_by_transaction=() if self.is_mute else tuple(results)
        )

    def tell(self, story: Callable[[TransactionMembership], Coroutine[Any, Any, None]], **settings: str) -> None:
        with World() as world:
            properties = {"node.id": str(ME), "listeners": "PLAINTEXT://b:9092", "log.dirs": "/data", **settings}
            config = LiveConfig(BrokerConfig.from_properties(properties))
            runtime = world.node("broker").runtime
            world.run(story(TransactionMembership(config, runtime, self, self)))
            self.failures = runtime.metrics.value("kafka_server_addpartitionstotxnmanager_verificationfailures_total")


def test_the_coordinator_on_the_same_broker_is_asked_without_a_request() -> None:
    room = Room()
    room.codes = [{T1: ErrorCode.TRANSACTION_ABORTABLE}]

    async def story(membership: TransactionMembership) -> None:
        codes = await membership.check("my-id", P, [T0, T1], is_verification=True)
        assert codes == {T0: OK, T1: ErrorCode.TRANSACTION_ABORTABLE}
        await membership.check("my-id", P, [T0], is_verification=False)

    room.tell(story)
    verified, added = room.asked_here
    assert (verified.is_verification, verified.client_version) == (True, TransactionVersion.ZERO)
    assert (added.is_verification, added.client_version) == (False, TransactionVersion.TWO)
    assert room.requests == []


def test_what_comes_while_somebody_asks_goes_together_in_the_next_request() -> None:
    room = Room()

    async def story(membership: TransactionMembership) -> None:
        codes = await asyncio.gather(
            membership.check("a", P, [T0], is_verification=True),
            membership.check("b", Q, [T0, U0], is_verification=False),
            membership.check("c", P, [T1], is_verification=True),
            membership.check("b", Q, [T1], is_verification=False),
        )
        assert tuple(codes) == ({T0: OK}, {T0: OK, U0: OK}, {T1: OK}, {T1: OK})

    room.tell(story)
    first, second = room.requests
    assert [one.transactional_id for one in first.transactions + second.transactions] == ["a", "b", "c"]
    b = second.transactions[0]
    assert (b.producer_id, b.producer_epoch, b.verify_only) == (*Q, False)
    assert [(topic.name, topic.partitions) for topic in b.topics] == [("t", (0, 1)), ("u", (0,))]


def test_two_producers_of_one_id_are_asked_about_one_after_the_other() -> None:
    room = Room()

    async def story(membership: TransactionMembership) -> None:
        await asyncio.gather(
            membership.check("z", P, [T0], is_verification=True),
            membership.check("a", P, [T0], is_verification=True),
            membership.check("a", P._replace(producer_epoch=1), [T0], is_verification=True),
        )

    room.tell(story)
    assert [[one.producer_epoch for one in request.transactions] for request in room.requests] == [[0], [0], [1]]


def test_a_coordinator_that_cannot_be_asked_leaves_nobody_waiting() -> None:
    room = Room()
    room.is_reachable = False

    async def story(membership: TransactionMembership) -> None:
        codes = await asyncio.gather(
            *(membership.check(name, P, [T0, T1], is_verification=True) for name in ("a", "b", "none"))
        )
        lost, nobody = ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert codes == [{T0: lost, T1: lost}, {T0: lost, T1: lost}, {T0: nobody, T1: nobody}]

    room.tell(story)
    assert room.failures == 6


def test_what_an_answer_leaves_out_was_not_heard_and_what_it_says_of_all_holds_for_each() -> None:
    room = Room()

    async def story(membership: TransactionMembership) -> None:
        room.is_mute = True
        assert await membership.check("a", P, [T0], is_verification=True) == {T0: ErrorCode.NETWORK_EXCEPTION}
        room.error = ErrorCode.NOT_COORDINATOR
        assert await membership.check("a", P, [T0], is_verification=True) == {T0: ErrorCode.NOT_COORDINATOR}

    room.tell(story)


def test_who_goes_away_while_asking_for_others_leaves_them_an_answer() -> None:
    room = Room()

    async def story(membership: TransactionMembership) -> None:
        loop = asyncio.get_running_loop()
        asking = loop.create_task(membership.check("a", P, [T0], is_verification=True))
        joining = loop.create_task(membership.check("b", P, [T0], is_verification=True))
        gone = loop.create_task(membership.check("c", P, [T0], is_verification=True))
        await passed(0.005)
        gone.cancel()  # waits for its turn
        asking.cancel()  # is asking
        with suppress(asyncio.CancelledError):
            await asking
        assert await joining == {T0: OK}

    room.tell(story)
    assert [one.transactional_id for one in room.requests[1].transactions] == ["b"]


def test_while_the_transaction_before_is_ending_an_addition_is_tried_again_for_a_while() -> None:
    room = Room()
    ending = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    room.codes = [ending, ending]

    async def story(membership: TransactionMembership) -> None:
        begun = asyncio.get_running_loop().time()
        assert await membership.check("my-id", P, [T0], is_verification=False) == {T0: OK}
        assert 0.039 < asyncio.get_running_loop().time() - begun < 0.05
        room.codes = [ending] * 100
        assert await membership.check("my-id", P, [T0], is_verification=False) == ending
        assert len(room.asked_here) == 3 + 6
        room.codes = [ending]
        assert await membership.check("my-id", P, [T0], is_verification=True) == ending

    room.tell(story)
