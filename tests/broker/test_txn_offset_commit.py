"""TxnOffsetCommit: who is asked before offsets are written in a transaction, and what never gets in (T10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from tests.broker.replication_rig import CLIENTS, T0, Rig, RigBroker, rig, virtual_ms
from tests.coordinator.group.offset_room import transactional_request
from tidelog.broker.coordination import CoordinationSurroundings
from tidelog.broker.group_coordination import GroupCoordination
from tidelog.broker.handlers import txn_offset_commit
from tidelog.broker.handlers.group_requests import settled
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.topic_view import CachedTopics
from tidelog.coordinator.group.assembly import make_group_machine
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Address
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

T = TypeVar("T")

GROUP = "readers"
OFFSETS = TopicPartition(GROUPS_TOPIC, 0)
PRODUCER = ProducerIdentity(9, 0)
TV1, TV2 = 4, 5
UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT
READ = 5
ADDRESS = Address("somewhere", 1)


class Room:
    """One broker that leads one partition and the only partition of committed offsets."""

    def __init__(self, one: Rig) -> None:
        self.rig = one
        self.broker: RigBroker = one.brokers[1]
        make = partial(
            make_group_machine, GroupSettings(), CachedTopics(self.broker.metadata), self.broker.runtime.randomness
        )
        surroundings = CoordinationSurroundings(self.broker.runtime.clock, self.broker.metadata, self.broker.replicas)
        self.groups = GroupCoordination(self.broker.config, surroundings, make)
        cast("SimpleNamespace", self.broker.node).groups = self.groups

    def run(self, story: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it while the groups are served."""

        async def served(_: object) -> T:
            async with self.groups.running():
                self.rig.tell(1, 0, isr=(1,), keys=(OFFSETS,))
                await virtual_ms(50)
                return await story()

        return self.rig.talk(1, served, listener=CLIENTS)

    async def commit(
        self,
        offset: int = READ,
        *,
        version: int = TV2,
        producer: ProducerIdentity = PRODUCER,
        connection: int = 1,
        group_id: str = GROUP,
        partition: tuple[str, int] = T0,
    ) -> ErrorCode:
        request = transactional_request(
            producer.producer_id, {partition: offset}, producer_epoch=producer.producer_epoch, group_id=group_id
        )
        header = RequestHeader(ApiKey.TXN_OFFSET_COMMIT, version, 1, "client")
        context = RequestContext(header, CLIENTS, ADDRESS, ADDRESS, connection)
        (topic,) = (await txn_offset_commit.handle(self.broker.node, context, request)).topics
        (row,) = topic.partitions
        assert (topic.name, row.partition_index) == partition
        return row.error_code

    async def fetch(self, *, stable: bool = True) -> int:
        """What is committed for the partition, or an error."""
        topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
        groups = (OffsetFetchRequestGroup(group_id=GROUP, topics=topics),)
        context = RequestContext(RequestHeader(ApiKey.OFFSET_FETCH, 9, 1, "client"), CLIENTS, ADDRESS, ADDRESS)
        request = OffsetFetchRequest(groups=groups, require_stable=stable)
        (group,) = (await settled(self.groups.ask(GROUP, request, context))).groups
        (row,) = group.topics[0].partitions
        return -row.error_code or row.committed_offset

    async def end(self, *, is_committed: bool, epoch: int = 0) -> None:
        producer = PRODUCER._replace(producer_epoch=epoch)
        self.groups.end_transaction(0, TransactionEnd(producer, is_committed, coordinator_epoch=0))
        await virtual_ms(50)

    @property
    def end_offset(self) -> int:
        return self.broker.replicas.partition(OFFSETS).log.log_end_offset


@pytest.fixture
def room() -> Iterator[Room]:
    with rig(1) as made:
        made.tell(1, 0, isr=(1,))
        yield Room(made)


@pytest.mark.parametrize("version", [0, 3, TV1, TV2])
@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_count_when_the_transaction_is_committed(room: Room, version: int, is_committed: bool) -> None:
    async def story() -> None:
        assert await room.commit(version=version) is ErrorCode.NONE
        (asked,) = room.rig.coordinator.asked
        assert (asked.transactional_id, asked.producer, asked.partitions) == ("t9", PRODUCER, (OFFSETS,))
        assert asked.is_verification is (version < TV2)
        assert (await room.fetch(), await room.fetch(stable=False)) == (UNSTABLE, -1)
        await room.end(is_committed=is_committed)
        assert await room.fetch() == (READ if is_committed else -1)

    room.run(story)


def test_the_coordinator_is_asked_once_per_transaction(room: Room) -> None:
    async def story() -> None:
        assert await room.commit(1) is ErrorCode.NONE
        assert await room.commit(2) is ErrorCode.NONE
        assert len(room.rig.coordinator.asked) == 1
        await room.end(is_committed=True)
        assert await room.commit(3) is ErrorCode.NONE
        assert len(room.rig.coordinator.asked) == 2
        assert await room.fetch(stable=False) == 2

    room.run(story)


@pytest.mark.parametrize(
    ("said", "version", "heard"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TV1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, TV2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TV1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV2, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_what_is_not_part_of_the_transaction_leaves_no_trace(
    room: Room, said: ErrorCode, version: int, heard: ErrorCode
) -> None:
    async def story() -> None:
        room.rig.coordinator.codes = {OFFSETS: said}
        assert await room.commit(version=version) is heard
        assert (await room.fetch(), room.end_offset) == (-1, 0)

    room.run(story)


@pytest.mark.parametrize(
    ("version", "heard"), [(3, ErrorCode.INVALID_TXN_STATE), (TV2, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_t10_a_transaction_that_ends_while_it_is_asked_about_stays_ended(
    room: Room, version: int, heard: ErrorCode
) -> None:
    async def story() -> None:
        room.rig.coordinator.leave = asyncio.Event()
        late = asyncio.ensure_future(room.commit(version=version))
        await virtual_ms(10)
        epoch = 1 if version == TV2 else 0
        await room.end(is_committed=False, epoch=epoch)
        room.rig.coordinator.leave.set()
        assert await late is heard
        assert (await room.fetch(), room.end_offset) == (-1, 1), "nothing but the marker"
        await room.end(is_committed=True, epoch=epoch)
        assert await room.fetch() == -1

    room.run(story)


def test_the_next_transaction_may_be_asked_about_before_the_marker_of_the_last_is_there(room: Room) -> None:
    """In the new protocol producers do not wait for it, and it bears the epoch of the next."""

    async def story() -> None:
        assert await room.commit(1) is ErrorCode.NONE
        room.rig.coordinator.leave = asyncio.Event()
        early = asyncio.ensure_future(room.commit(2, producer=PRODUCER._replace(producer_epoch=1)))
        await virtual_ms(10)
        await room.end(is_committed=True, epoch=1)
        room.rig.coordinator.leave.set()
        assert await early is ErrorCode.NONE
        assert (await room.fetch(stable=False), await room.fetch()) == (1, UNSTABLE)
        await room.end(is_committed=True, epoch=2)
        assert await room.fetch() == 2

    room.run(story)


def test_two_requests_of_a_transaction_may_be_asked_about_at_once(room: Room) -> None:
    async def story() -> None:
        room.rig.coordinator.leave = asyncio.Event()
        both = asyncio.gather(room.commit(1), room.commit(2))
        await virtual_ms(10)
        room.rig.coordinator.leave.set()
        assert list(await both) == [ErrorCode.NONE, ErrorCode.NONE]
        await room.end(is_committed=True)
        assert await room.fetch() == 2

    room.run(story)


def test_who_is_not_the_leader_any_more_when_the_answer_comes_says_so(room: Room) -> None:
    async def story() -> None:
        room.rig.coordinator.leave = asyncio.Event()
        late = asyncio.ensure_future(room.commit())
        await virtual_ms(10)
        room.broker.replicas.partition(OFFSETS).step_down()
        room.rig.coordinator.leave.set()
        assert await late is ErrorCode.NOT_COORDINATOR

    room.run(story)


def test_a_fenced_producer_is_refused_by_the_log_too(room: Room) -> None:
    async def story() -> None:
        assert await room.commit(producer=PRODUCER._replace(producer_epoch=3)) is ErrorCode.NONE
        await room.end(is_committed=True, epoch=4)
        assert await room.commit(9, producer=PRODUCER._replace(producer_epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await room.fetch() == READ

    room.run(story)


def test_what_an_older_connection_still_brings_is_not_taken_for_the_next_transaction(room: Room) -> None:
    """T10, of producers whose transactions share an epoch."""

    async def story() -> None:
        assert await room.commit(1, version=TV1, connection=7) is ErrorCode.NONE
        await room.end(is_committed=False)
        assert await room.commit(2, version=TV1, connection=8) is ErrorCode.NONE
        assert await room.commit(1, version=TV1, connection=7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await room.end(is_committed=True)
        assert await room.fetch() == 2

    room.run(story)


def test_a_zombie_that_connects_anew_does_not_silence_who_has_fenced_it(room: Room) -> None:
    async def story() -> None:
        heir = PRODUCER._replace(producer_epoch=PRODUCER.producer_epoch + 1)
        assert await room.commit(1, version=TV1, connection=7, producer=heir) is ErrorCode.NONE
        assert await room.commit(9, version=TV1, connection=8) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await room.commit(2, version=TV1, connection=7, producer=heir) is ErrorCode.NONE

    room.run(story)


@pytest.mark.parametrize(("version", "asked"), [(TV1, 0), (TV2, 1)])
def test_without_verification_only_the_new_protocol_asks(version: int, asked: int) -> None:
    with rig(1, settings={"transaction.partition.verification.enable": "false"}) as made:
        made.tell(1, 0, isr=(1,))
        room = Room(made)

        async def story() -> None:
            assert await room.commit(version=version) is ErrorCode.NONE
            assert len(made.coordinator.asked) == asked

        room.run(story)


def test_partitions_that_do_not_exist_are_refused_by_themselves(room: Room) -> None:
    async def story() -> None:
        assert await room.commit(partition=("t", 7)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await room.commit(partition=("unheard", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert room.rig.coordinator.asked == []

    room.run(story)


def test_a_group_needs_a_name(room: Room) -> None:
    async def story() -> None:
        assert await room.commit(group_id="") is ErrorCode.INVALID_GROUP_ID

    room.run(story)
