"""Readers who obey the protocol, and to whom everything happens: they lag, die, lose answers, come back; topics grow, coordinators fail."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.coordinator.group.consumer_room import SESSION_MS, Reader, Room
from tests.coordinator.group.veterans import VETERAN_SESSION_MS, Veteran
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode, TopicId

SUBSCRIPTIONS = st.sampled_from([("t",), ("t", "u"), ("u",), ()])
REGEXES = st.sampled_from([None, None, None, "t|v", "u.*"])
PLACES = st.sampled_from([None, None, "i", "j"])
SILENT_TOO_LONG_MS = SESSION_MS - 1  # as a reader that cannot reach its coordinator gives up its partitions itself


class Storm(RuleBasedStateMachine):
    """At no time do two live readers own one partition; when all is quiet, everything is read."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(
            GroupSettings(
                consumer_regex_refresh_interval_ms=60_000,
                consumer_migration_policy="upgrade",
                offsets_retention_check_interval_ms=2**40,  # a group without members and offsets would be forgotten
            ),
            t=3,
            u=2,
        )
        self.numbers = count(1)
        self.readers: dict[str, Reader] = {}
        self.heard_ms: dict[str, float] = {}
        self.veterans: list[Veteran] = []
        self.veterans_heard_ms: dict[int, float] = {}
        self.group_epoch = 0
        self.member_epochs: dict[str, int] = {}

    @initialize()
    def begin(self) -> None:
        self.join(("t",), None, None, "uniform")

    # What readers do.

    @rule(topics=SUBSCRIPTIONS, regex=REGEXES, place=PLACES, assignor=st.sampled_from([None, "uniform", "range"]))
    def join(self, topics: tuple[str, ...], regex: str | None, place: str | None, assignor: str | None) -> None:
        if len(self.readers) >= 5 or (place is not None and any(r.instance_id == place for r in self.readers.values())):
            return
        name = f"m{next(self.numbers)}"
        reader = self.room.reader(name, topics=topics, regex=regex, instance_id=place, assignor=assignor)
        self.readers[name] = reader
        self.heard_ms[name] = self.room.driver.monotonic_ms
        self.beat(reader, is_lost=False)

    def beat(self, reader: Reader, *, is_lost: bool) -> None:
        response = reader.beat(is_lost=is_lost)
        if is_lost:
            return
        code = response.error_code
        assert code in (
            ErrorCode.NONE,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        )
        if code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            reader.abandon()
        if code is ErrorCode.NONE:
            self.heard_ms[reader.member_id] = self.room.driver.monotonic_ms

    def pick(self, number: int) -> Reader | None:
        return list(self.readers.values())[number % len(self.readers)] if self.readers else None

    @rule(number=st.integers(0, 9), is_lost=st.booleans())
    def say_something(self, number: int, *, is_lost: bool) -> None:
        reader = self.pick(number)
        if reader is not None:
            self.beat(reader, is_lost=is_lost and number % 3 == 0)

    @rule(number=st.integers(0, 9))
    def take_over_what_was_heard(self, number: int) -> None:
        reader = self.pick(number)
        if reader is not None:
            reader.revoke() if number % 2 else reader.apply()

    @rule(number=st.integers(0, 9), topics=SUBSCRIPTIONS, regex=REGEXES)
    def subscribe_to_something_else(self, number: int, topics: tuple[str, ...], regex: str | None) -> None:
        reader = self.pick(number)
        if reader is not None:
            reader.topics, reader.regex, reader.is_full_due = topics, regex or "", True

    @rule(number=st.integers(0, 9), comes_back=st.booleans())
    def leave(self, number: int, *, comes_back: bool) -> None:
        reader = self.pick(number)
        if reader is not None:
            reader.leave(-2 if reader.instance_id is not None and comes_back else -1)
            del self.readers[reader.member_id]

    @rule(number=st.integers(0, 9))
    def die(self, number: int) -> None:
        reader = self.pick(number)
        if reader is not None:
            del self.readers[reader.member_id]

    # What members of the classic protocol do.

    @precondition(lambda self: self.room.group.members)
    @rule()
    def join_as_a_veteran(self) -> None:
        if len(self.veterans) < 2:
            self.veterans.append(Veteran(self.room))
            self.join_again(len(self.veterans) - 1)

    def veteran(self, number: int) -> Veteran | None:
        return self.veterans[number % len(self.veterans)] if self.veterans else None

    def hear(self, veteran: Veteran, code: ErrorCode) -> None:
        """Whoever is not of this generation any more has lost everything."""
        assert code in (
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
        )
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            veteran.abandon()
        self.veterans_heard_ms[id(veteran)] = self.room.driver.monotonic_ms

    @precondition(lambda self: self.room.group.members)
    @rule(number=st.integers(0, 9))
    def join_again(self, number: int) -> None:
        veteran = self.veteran(number)
        if veteran is not None:
            self.hear(veteran, veteran.join().error_code)

    @rule(number=st.integers(0, 9))
    def sync(self, number: int) -> None:
        veteran = self.veteran(number)
        if veteran is not None and veteran.generation >= 0:
            code = veteran.sync().error_code
            self.hear(veteran, code)
            if code is ErrorCode.NONE:
                veteran.take_part()

    @rule(number=st.integers(0, 9))
    def say_something_as_a_veteran(self, number: int) -> None:
        veteran = self.veteran(number)
        if veteran is not None and veteran.generation >= 0:
            self.hear(veteran, veteran.heartbeat())

    @rule(number=st.integers(0, 9), says_so=st.booleans())
    def go_as_a_veteran(self, number: int, *, says_so: bool) -> None:
        veteran = self.veteran(number)
        if veteran is not None:
            self.veterans.remove(veteran)
            if says_so and veteran.generation >= 0:
                veteran.leave()

    # What happens to them.

    @rule(duration_ms=st.sampled_from([100, 5_000, 11_000, 20_000, 50_000]))
    def wait(self, duration_ms: int) -> None:
        """Whoever is not heard by the coordinator for a session stops reading by itself."""
        self.room.driver.wait_ms(duration_ms)
        for reader in self.readers.values():
            if self.room.driver.monotonic_ms - self.heard_ms[reader.member_id] >= SILENT_TOO_LONG_MS:
                reader.abandon()
        for veteran in self.veterans:
            if self.room.driver.monotonic_ms - self.veterans_heard_ms[id(veteran)] >= VETERAN_SESSION_MS - 1:
                veteran.abandon()

    @rule(name=st.sampled_from("tuv"), more=st.integers(1, 2))
    def grow(self, name: str, more: int) -> None:
        view = self.room.topics.by_name(name)
        if view is None or view.partition_count < 7:
            self.room.grow(name, more + (0 if view is None else view.partition_count))

    @precondition(lambda self: self.room.driver.log)
    @rule()
    def fail_over(self) -> None:
        self.room.fail_over()

    @rule()
    def lose_a_write(self) -> None:
        self.room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        for reader in self.readers.values():
            self.room.send(reader.request())
        self.room.driver.append_error = None

    # What has to be true.

    @invariant()
    def nobody_owns_what_another_owns(self) -> None:
        owners: dict[tuple[TopicId, int], str] = {}
        for reader in self.readers.values():
            is_alive = reader.member_id in self.room.group.members
            for topic_id, partitions in reader.owned.items():
                for partition in partitions if is_alive else ():
                    assert (topic_id, partition) not in owners
                    owners[topic_id, partition] = reader.member_id
        t = self.room.topics.views["t"].topic_id
        for veteran in self.veterans:
            for partition in veteran.owned if veteran.member_id in self.room.group.members else ():
                assert (t, partition) not in owners
                owners[t, partition] = veteran.member_id

    @invariant()
    def epochs_never_go_back(self) -> None:
        if not self.room.driver.log:
            return
        group = self.room.group
        assert group.epoch >= self.group_epoch
        assert group.assignment_epoch <= group.epoch
        self.group_epoch = group.epoch
        for member_id, member in group.members.items():
            assert member.epoch == -2 or member.epoch >= self.member_epochs.get(member_id, 0)
            assert member.epoch <= group.epoch
            self.member_epochs[member_id] = max(member.epoch, 0)

    def settle_veteran(self, veteran: Veteran) -> None:
        if veteran.generation < 0:
            if self.room.group.members:
                veteran.rejoin()
            return
        code = veteran.heartbeat() if veteran.has_synced else ErrorCode.REBALANCE_IN_PROGRESS
        self.hear(veteran, code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            veteran.rejoin()

    def teardown(self) -> None:
        """All is quiet: the dead are found to be dead, and the living settle."""
        for _ in range(28):
            self.room.driver.wait_ms(5_001)
            for _ in range(3):
                for reader in self.readers.values():
                    self.beat(reader, is_lost=False)
                    reader.apply()
                for veteran in self.veterans:
                    self.settle_veteran(veteran)
            self.nobody_owns_what_another_owns()
        if not self.readers and not any(veteran.generation >= 0 for veteran in self.veterans):
            assert self.room.group.state_name == "Empty"
            return
        assert self.room.group.state_name == "Stable"
        expected = {
            (view.topic_id, partition)
            for view in self.room.topics.views.values()
            if self.room.group.is_subscribed_to(view.name)
            for partition in range(view.partition_count)
        }
        owned = [
            (topic_id, partition)
            for reader in self.readers.values()
            for topic_id, partitions in reader.owned.items()
            for partition in partitions
        ]
        t = self.room.topics.views["t"].topic_id
        owned += [(t, partition) for veteran in self.veterans for partition in veteran.owned]
        assert sorted(owned) == sorted(expected)
        self.room.fail_over()


def storms(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )


@pytest.mark.slow
class TestStorm(Storm.TestCase):  # type: ignore[misc,valid-type]  # hypothesis makes the class
    settings = storms(20, 40)


@pytest.mark.proof
class TestLongStorm(Storm.TestCase):  # type: ignore[misc,valid-type]  # hypothesis makes the class
    settings = storms(300, 60)
