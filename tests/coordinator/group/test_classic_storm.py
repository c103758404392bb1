"""Many come and go at once, and time does what it likes: a classic group settles, and everybody gets an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.coordinator.group.classic_room import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Room
from tidelog.coordinator import CoordinatorRecord, Token
from tidelog.coordinator.group.classic import ClassicGroup, ClassicState
from tidelog.coordinator.group.records import ClassicGroupValue, read_group_value
from tidelog.model import ErrorCode
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

QUIET_MS = 20 * 60_000
"""Longer than anything that is waited for: the first wait, a session, a rebalance, somebody new."""


class Consumer:
    """Does what a client does: joins, assigns if it leads, syncs, beats, and starts over when it is told to."""

    def __init__(self, room: Room, instance_id: str | None) -> None:
        self.room = room
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.part: bytes | None = None
        self.token: Token | None = None

    def step(self) -> None:
        """Hear what there is to hear, and do the next thing."""
        if self.token is not None:
            if self.room.is_parked(self.token):
                return
            response, self.token = self.room.answer(self.token), None
            self.hear(response)
        elif self.part is None:
            self.join()
        else:
            code = self.room.beat(self.member_id, self.generation, self.instance_id)
            if code is not ErrorCode.NONE:
                self.start_over(code)

    def join(self) -> None:
        self.token = self.room.join(member_id=self.member_id, instance_id=self.instance_id)

    def hear(self, response: JoinGroupResponse | SyncGroupResponse) -> None:
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED and isinstance(response, JoinGroupResponse):
            self.member_id = response.member_id
            self.join()
        elif response.error_code is not ErrorCode.NONE:
            self.start_over(response.error_code)
        elif isinstance(response, JoinGroupResponse):
            self.member_id, self.generation = response.member_id, response.generation_id
            is_leader = response.leader == response.member_id and not response.skip_assignment
            parts = {member.member_id: member.member_id.encode() for member in response.members} if is_leader else {}
            self.token = self.room.sync(self.member_id, self.generation, instance_id=self.instance_id, parts=parts)
        else:
            self.part = response.assignment

    def start_over(self, code: ErrorCode) -> None:
        self.part = None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""


def settle(room: Room, consumers: list[Consumer], seconds: int) -> None:
    for _ in range(seconds):
        for consumer in consumers:
            consumer.step()
        room.wait_ms(1_000)


def has_settled(room: Room, consumers: list[Consumer]) -> bool:
    ids = [consumer.member_id for consumer in consumers]
    return (
        room.state == "Stable"
        and sorted(ids) == sorted(room.group.members.by_id)
        and len({*ids}) == len(consumers)
        and all(consumer.part == consumer.member_id.encode() for consumer in consumers)
        and {consumer.generation for consumer in consumers} == {room.group.generation}
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_fifty_members_of_which_ten_come_and_go_every_second_settle_when_it_is_over(seed: int) -> None:
    chance = SimulatedRandomness(seed)
    room = Room()
    consumers = [Consumer(room, f"static-{number}" if number % 2 else None) for number in range(50)]
    settle(room, consumers, 30)
    assert has_settled(room, consumers)
    for second in range(20):
        for _ in range(10):
            place = chance.below(len(consumers))
            gone = consumers[place]
            if gone.instance_id is None and gone.member_id and chance.fraction() < 0.7:
                room.leave(gone.member_id)  # The others die without a word.
            consumers[place] = Consumer(room, gone.instance_id)
        settle(room, consumers, 1)
        if second == 10:
            room.driver.fail_over()
    for consumer in consumers:
        if consumer.token is not None and not room.is_parked(consumer.token):
            consumer.step()
    settle(room, consumers, (REBALANCE_MS + SESSION_MS + DELAY_MS) // 1_000 + 10)
    assert has_settled(room, consumers)


class Chaos(RuleBasedStateMachine):
    """Five who may be anybody: they join, sync, beat and leave whenever, under ids and generations old and new."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.ids = [""]
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.seen: set[Token] = set()

    members = st.integers(0, 7)
    instances = st.sampled_from([None, None, "i", "j"])

    def who(self, number: int) -> str:
        return self.ids[-1 - number % len(self.ids)]

    @rule(
        number=members,
        instance_id=instances,
        said=st.sampled_from([b"a", b"b"]),
        version=st.sampled_from([3, 8, 9]),
        patience=st.sampled_from([0, 20_000, REBALANCE_MS]),
    )
    def join(self, number: int, instance_id: str | None, said: bytes, version: int, patience: int) -> None:
        self.room.join(
            member_id=self.who(number),
            instance_id=instance_id if version > 4 else None,
            protocols=(("range", said),),
            version=version,
            rebalance_ms=patience,
        )

    @rule(number=members)
    def join_as_somebody_new(self, number: int) -> None:
        self.room.join(version=3 + number % 2)

    @rule(instance_id=st.sampled_from(["i", "j"]))
    def restart(self, instance_id: str) -> None:
        self.room.join(instance_id=instance_id)

    @precondition(lambda self: GROUP in self.room.book.groups)
    @rule(number=members, age=st.sampled_from([0, 0, 0, 1]), is_assigning=st.booleans())
    def sync(self, number: int, age: int, is_assigning: bool) -> None:
        parts = {member_id: member_id.encode() for member_id in self.room.group.members.by_id} if is_assigning else {}
        self.room.sync(self.who(number), self.room.group.generation - age, parts=parts)

    @precondition(lambda self: GROUP in self.room.book.groups and self.room.group.leader is not None)
    @rule()
    def leader_syncs(self) -> None:
        ids = self.room.group.members.by_id
        self.room.sync(self.room.group.leader or "", parts={member_id: member_id.encode() for member_id in ids})

    @precondition(lambda self: GROUP in self.room.book.groups)
    @rule()
    def everybody_rejoins(self) -> None:
        self.room.rejoin(*self.room.group.members.by_id)

    @rule(number=members, age=st.sampled_from([0, 0, 1]))
    def beat(self, number: int, age: int) -> None:
        self.room.beat(self.who(number), self.generation - age)

    @rule(numbers=st.lists(members, max_size=3))
    def leave(self, numbers: list[int]) -> None:
        self.room.leave(*(self.who(number) for number in numbers))

    @rule(duration_ms=st.sampled_from([1, DELAY_MS, 7_000, SESSION_MS, REBALANCE_MS, QUIET_MS]))
    def wait(self, duration_ms: int) -> None:
        self.room.wait_ms(duration_ms)

    @rule()
    def fail_over(self) -> None:
        self.room.driver.fail_over()
        self.generation = 0
        self.leaders.clear()

    @rule(error=st.sampled_from([None, None, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def let_appends_fail(self, error: ErrorCode | None) -> None:
        self.room.driver.append_error = error

    @invariant()
    def ids_are_remembered(self) -> None:
        """Whatever id was given to anybody may be used later, by anybody."""
        for token, response in self.room.driver.replies.items():
            if token in self.seen:
                continue
            self.seen.add(token)
            member_id = getattr(response, "member_id", "")
            if member_id and member_id not in self.ids:
                self.ids.append(member_id)

    @invariant()
    def a_group_is_whole(self) -> None:
        group = self.room.book.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            return
        assert group.generation >= self.generation, "generations never go back"
        self.generation = group.generation
        members = group.members.by_id.keys()
        assert group.joins.keys() <= members
        assert group.syncs.keys() <= members
        assert group.unsynced.keys() <= members
        assert not group.pending.keys() & members
        assert {**group.members.by_instance} == {
            member.instance_id: member.member_id for member in group.members if member.instance_id is not None
        }
        if group.state is ClassicState.EMPTY:
            assert not members
        if group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            assert group.leader in members
            assert not group.joins
            assert group.protocol == "range"
        if group.state is ClassicState.STABLE:
            assert not group.syncs

    @invariant()
    def a_generation_has_one_leader(self) -> None:
        """Unless it is a static one that restarted: the place is the same then, and so is the generation."""
        for generation, leader in self._led():
            former = self.leaders.setdefault(generation, leader)
            is_same_place = former.rsplit("-", 5)[0] == leader.rsplit("-", 5)[0] != "client"
            assert former == leader or is_same_place

    def _led(self) -> list[tuple[int, str]]:
        group = self.room.book.groups.get(GROUP)
        if not isinstance(group, ClassicGroup) or group.leader is None:
            return []
        is_led = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
        return [(group.generation, group.leader)] if is_led else []

    @invariant()
    def what_was_written_is_what_the_group_relies_on(self) -> None:
        group = self.room.book.groups.get(GROUP)
        if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
            assert durable(self.room.driver.log) == durable([group.record()])

    def teardown(self) -> None:
        """Nobody is parked for ever, and whoever is silent is gone."""
        self.room.driver.append_error = None
        self.room.wait_ms(QUIET_MS)
        assert not self.room.driver.waiting
        if GROUP in self.room.book.groups:
            assert self.room.state == "Empty"
            assert not self.room.group.pending
        assert not self.room.driver.timers


def durable(log: list[CoordinatorRecord]) -> ClassicGroupValue:
    """What a coordinator that takes over would know."""
    value = read_group_value(log[-1].value or b"")
    return replace(value, members=tuple(sorted(value.members, key=lambda member: member.member_id)))


TestChaos = pytest.mark.slow(Chaos.TestCase)
TestChaos.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
