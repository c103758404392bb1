"""The group rows of the fault matrix: storms, fail-overs under joins and syncs, zombies, slow revocations, compaction of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.simulation.clusters import kills
from tests.simulation.group_members import (
    CLASSIC,
    CONSUMER,
    COOPERATIVE,
    FAST,
    GROUP,
    Member,
    committed,
    coordinator,
    make_topic,
    partitions,
    produce,
    share_all,
)
from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.client import Admin, ClientConfig, CommitFailed, Committed, Consumer, ElectionKind, GroupRefused
from tidelog.coordinator.placement import partition_of
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.checkers import OneOwner
from tidelog.simulation.checkers.group_offsets import stored_offsets
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.group_history import GroupHistory, How, Owner, Protocol
from tidelog.simulation.messages import Kind
from tidelog.simulation.registry_session import RegistryTiming
from tidelog.wire.api import ApiKey

T = TypeVar("T")
pytestmark = pytest.mark.slow

PROTOCOLS = pytest.mark.parametrize(
    "protocol", [CLASSIC, COOPERATIVE, CONSUMER], ids=["eager", "cooperative", "consumer"]
)
T0 = TopicPartition("t", 0)
REPLICATED = {**FAST, "offsets.topic.replication.factor": "3", "min.insync.replicas": "2"}
QUICKLY_MISSED = RegistryTiming(session_timeout_ms=1_000)


def one_broker(**settings: str) -> SimulatedCluster:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(1, brokers=1, settings={**FAST, "offsets.topic.replication.factor": "1", **named})


def three_brokers(**settings: str) -> SimulatedCluster:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(1, brokers=3, settings={**REPLICATED, **named}, timing=QUICKLY_MISSED)


def offsets(cluster: SimulatedCluster, count: int) -> dict[int, int]:
    return {index: -1 if each is None else each.offset for index, each in committed(cluster, count=count).items()}


def on(member: Member, cluster: SimulatedCluster, work: Callable[[Consumer], Coroutine[Any, Any, T]]) -> T:
    """Have the program of a member do something beside its polling."""
    consumer = member.consumer
    assert consumer is not None

    async def watched() -> T:
        return await member.node.spawn(work(consumer))

    return cluster.world.run(watched())


def administrate(cluster: SimulatedCluster, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
    async def story(runtime: Runtime) -> T:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            return await work(admin)

    return cluster.tell(story)


def state_of_group(cluster: SimulatedCluster) -> str:
    async def ask(admin: Admin) -> str:
        described = (await admin.groups.describe_groups([GROUP]))[GROUP]
        return described.name if isinstance(described, ErrorCode) else described.state

    return administrate(cluster, ask)


class Watched(Member):
    """A member whose partitions are noted for the checkers, too."""

    history: GroupHistory
    identity = ""

    def leave(self) -> None:
        """Close in good order, some time."""
        self._is_over = True

    def _note(self, what: str, partitions: list[TopicPartition]) -> None:
        super()._note(what, partitions)
        assert self.consumer is not None
        metadata = self.consumer.group.membership()
        owner = Owner(self.name, metadata.instance_id or metadata.member_id if what == "assigned" else self.identity)
        if what == "assigned":
            self.identity = owner.identity
            self.history.gain(GROUP, owner, metadata.generation, partitions)
        else:
            how = How.LOST if what == "lost" else How.GONE if self._is_over else How.REVOKED
            self.history.release(GROUP, owner, metadata.generation, partitions, how)


# G01.


STORM = 50
STORM_PARTITIONS = 8


@kills
@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_g01_a_storm_of_fifty_members_settles_with_one_owner_for_each_partition(protocol: dict[str, str]) -> None:
    """Half of them are static. For five seconds five of them leave each second, some without a word, and come back."""
    history = GroupHistory()
    history.begin(GROUP, Protocol.CLASSIC if protocol is CLASSIC else Protocol.CONSUMER, partitions(STORM_PARTITIONS))
    cluster = one_broker()
    cluster.checkers = [OneOwner(history)]
    chance = cluster.world.randomness.stream("storm")
    lives = 0

    def begin(number: int) -> Watched:
        nonlocal lives
        lives += 1
        static = {"group.instance.id": f"static-{number}"} if number % 2 else {}
        Watched.history = history
        settings = {**protocol, **static, "fetch.max.wait.ms": "5000", "metadata.max.age.ms": "60000"}
        return Watched(cluster, f"member-{number}-{lives}", settings)

    with cluster:
        make_topic(cluster, count=STORM_PARTITIONS)
        members = {number: begin(number) for number in range(STORM)}
        leaving: list[int] = []

        def all_are_back() -> bool:
            """A static member's place is free only when its predecessor has said that it is."""
            for number in [each for each in leaving if not members[each].node.is_running]:
                members[number] = begin(number)
                leaving.remove(number)
            return not leaving

        for _ in range(25):
            cluster.world.run_for_ms(200)
            all_are_back()
            number = chance.below(STORM)
            if number in leaving:
                continue
            if number % 2 == 0 and chance.below(2):
                members[number].kill()
                history.end(members[number].name)
            else:
                members[number].leave()
            leaving.append(number)
        cluster.until(all_are_back, "all are back")
        cluster.until(
            lambda: (
                sorted(one for each in members.values() for one in each.owned) == sorted(partitions(STORM_PARTITIONS))
            ),
            "every partition has one owner among the living",
            within_ms=30_000,
        )
        cluster.until(lambda: state_of_group(cluster) == "Stable", "the group is stable", within_ms=30_000)
        owned = sorted(one for each in members.values() for one in each.owned)
        assert owned == sorted(partitions(STORM_PARTITIONS))
        for member in members.values():
            member.kill()


# G02.


def committed_ten_each(cluster: SimulatedCluster, *members: Member) -> None:
    produce(cluster, range(20), count=2)
    cluster.until(lambda: len({value for one in members for value in one.values}) == 20, "everything was read")
    cluster.until(lambda: offsets(cluster, 2) == {0: 10, 1: 10}, "everything is committed")


def goes_on(cluster: SimulatedCluster, *members: Member) -> None:
    """Nothing that was committed is forgotten, and the group, once it has settled, reads on from there."""
    assert offsets(cluster, 2) == {0: 10, 1: 10}
    cluster.until(share_all(2, *members), "all are back")
    produce(cluster, range(20, 30), count=2)
    cluster.until(lambda: len({value for one in members for value in one.values}) == 30, "everything was read")
    cluster.until(lambda: offsets(cluster, 2) == {0: 15, 1: 15}, "everything is committed")
    for member in members:
        member.stop(cluster)


@kills
def test_g02_members_whose_joins_wait_find_the_new_coordinator_and_their_offsets() -> None:
    with three_brokers() as cluster:
        make_topic(cluster, count=2, replicas=3)
        first = Member(cluster, "first", CLASSIC)
        cluster.until(share_all(2, first), "it has both")
        committed_ten_each(cluster, first)
        first.node.pause()  # It does not rejoin, so the second's join waits.
        second = Member(cluster, "second", CLASSIC)
        cluster.until(lambda: state_of_group(cluster) == "PreparingRebalance", "a join is parked")
        cluster.brokers[coordinator(cluster)].kill()
        first.node.resume()
        goes_on(cluster, first, second)


@kills
def test_g02_members_whose_syncs_wait_find_the_new_coordinator_and_their_offsets() -> None:
    with three_brokers() as cluster:
        make_topic(cluster, count=2, replicas=3)
        first = Member(cluster, "first", CLASSIC)
        cluster.until(share_all(2, first), "it has both, and leads the group")
        committed_ten_each(cluster, first)
        messages = cluster.world.fabric.watch_messages()
        gate = messages.hold(Kind(host="first", api_key=ApiKey.SYNC_GROUP, is_answer=False))
        second = Member(cluster, "second", CLASSIC)
        cluster.until(lambda: gate.is_blocking, "the leader has assigned, but nobody hears it")
        cluster.world.run_for_ms(200)
        assert state_of_group(cluster) == "CompletingRebalance"
        cluster.brokers[coordinator(cluster)].kill()
        messages.release(gate)
        goes_on(cluster, first, second)


@kills
@PROTOCOLS
def test_g02_a_coordinator_that_moves_again_and_again_keeps_members_and_offsets(protocol: dict[str, str]) -> None:
    with three_brokers() as cluster:
        make_topic(cluster, count=2, replicas=3)
        first, second = Member(cluster, "first", protocol), Member(cluster, "second", protocol)
        cluster.until(share_all(2, first, second), "both have one")
        committed_ten_each(cluster, first, second)
        events = (list(first.events), list(second.events))
        index = partition_of(GROUP, int(FAST["offsets.topic.num.partitions"]))
        place = TopicPartition(GROUPS_TOPIC, index)
        for turn in range(4):
            order = [1 + (turn + n) % 3 for n in range(3)]
            assert administrate(cluster, lambda admin, to=order: admin.alter_reassignments({place: to}))[place].is_ok  # type: ignore[misc]
            administrate(cluster, lambda admin: admin.elect_leaders(ElectionKind.PREFERRED, [place]))
            cluster.until(lambda to=order[0]: coordinator(cluster) == to, "another coordinates")  # type: ignore[misc]
            cluster.world.run_for_ms(1_500)
        assert (first.events, second.events) == events, "nobody had to give anything up"
        goes_on(cluster, first, second)


# G03.


async def commit_one(consumer: Consumer) -> ErrorCode | None:
    try:
        await consumer.group.commit({T0: Committed(1)})
    except CommitFailed as failed:
        return failed.codes.get(T0)
    return None


@kills
@PROTOCOLS
def test_g03_a_member_that_slept_longer_than_its_session_commits_nothing(protocol: dict[str, str]) -> None:
    by_hand = {**protocol, "enable.auto.commit": "false"}
    with one_broker() as cluster:
        make_topic(cluster, count=2)
        zombie = Member(cluster, "zombie", by_hand)
        cluster.until(share_all(2, zombie), "it has both")
        produce(cluster, range(10), count=2)
        cluster.until(lambda: len(zombie.values) == 10, "everything was read")
        zombie.node.pause()
        other = Member(cluster, "other", protocol)
        cluster.until(lambda: offsets(cluster, 2) == {0: 5, 1: 5}, "the other has taken over")
        zombie.node.resume()
        assert on(zombie, cluster, commit_one) in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_MEMBER_EPOCH,
        )
        assert offsets(cluster, 2) == {0: 5, 1: 5}
        zombie.stop(cluster)
        other.stop(cluster)


@kills
def test_g03_a_static_member_whose_place_was_taken_is_fenced() -> None:
    static = {**CLASSIC, "group.instance.id": "one", "enable.auto.commit": "false"}
    with one_broker() as cluster:
        make_topic(cluster, count=2)
        zombie = Member(cluster, "zombie", static)
        zombie.node.excuse = lambda error: isinstance(error, GroupRefused)
        cluster.until(share_all(2, zombie), "it has both")
        zombie.node.pause()
        successor = Member(cluster, "successor", static)
        cluster.until(share_all(2, successor), "the successor has both")
        zombie.node.resume()
        assert on(zombie, cluster, commit_one) is ErrorCode.FENCED_INSTANCE_ID
        assert offsets(cluster, 2) == {0: -1, 1: -1}
        cluster.until(lambda: not zombie.node.is_running, "the zombie has been told, and gives up")
        successor.stop(cluster)


# G04.


class Slow(Member):
    """Takes its time to give a partition up."""

    given_up_ms: float | None = None
    slowness_s = 4.0

    def _note(self, what: str, partitions: list[TopicPartition]) -> Any:
        if what != "revoked":
            super()._note(what, partitions)
            return None
        return self._give_up(partitions)

    async def _give_up(self, partitions: list[TopicPartition]) -> None:
        await passed(self.slowness_s)
        super()._note("revoked", partitions)
        self.given_up_ms = asyncio.get_running_loop().time() * 1000


@kills
@PROTOCOLS
def test_g04_nobody_is_given_a_partition_before_its_owner_has_released_it(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=2)
        slow = Slow(cluster, "slow", protocol)
        cluster.until(share_all(2, slow), "it has both")
        quick = Member(cluster, "quick", protocol)
        begun_ms = cluster.world.loop.time() * 1000
        cluster.until(lambda: bool(quick.owned), "the other has got something")
        got_ms = cluster.world.loop.time() * 1000
        assert slow.given_up_ms is not None
        assert begun_ms < slow.given_up_ms <= got_ms
        assert not slow.owned & quick.owned
        cluster.until(share_all(2, slow, quick), "they share")
        quick.stop(cluster)
        slow.slowness_s = 0
        slow.stop(cluster)


# G05.


GROUPS = ("kept", "gone", "half")
EXPECTED: dict[str, dict[int, int]] = {"kept": {0: 59, 1: 60, 2: 61}, "gone": {}, "half": {1: 60, 2: 61}}
COMPACTING = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_segment_bytes": "1500",
    "log_cleaner_backoff_ms": "500",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_cleaner_delete_retention_ms": "1000",
}


async def write_and_delete_offsets(admin: Admin) -> None:
    """Sixty commits of three groups; then one group is deleted, and one offset of another."""
    for number in range(60):
        for group in GROUPS:
            wanted = {TopicPartition("t", index): Committed(number + index) for index in range(3)}
            assert set((await admin.groups.alter_offsets(group, wanted)).values()) == {ErrorCode.NONE}
    assert await admin.groups.delete_groups(["gone"]) == {"gone": ErrorCode.NONE}
    assert await admin.groups.delete_offsets("half", [T0]) == {T0: ErrorCode.NONE}


async def write_other_offsets(admin: Admin) -> None:
    """So that the tombstones leave the active segment, and go in time."""
    for number in range(40):
        await admin.groups.alter_offsets("other", {T0: Committed(number)})


async def offsets_of_groups(admin: Admin) -> dict[str, dict[int, int]]:
    answers = await admin.groups.committed_offsets(GROUPS)
    return {
        group: {one.index: each.offset for one, each in some.items()}
        for group, some in answers.items()
        if not isinstance(some, ErrorCode)
    }


def sizes(cluster: SimulatedCluster, place: TopicPartition) -> list[int]:
    """How many bytes the log of each replica has."""
    logs = [one.log for each in cluster.brokers.values() for one in each.partitions() if one.topic_partition == place]
    return [sum(segment.size for segment in log.segments) for log in logs]


def check_offsets(cluster: SimulatedCluster) -> None:
    """As the coordinator tells them, and as every replica has stored them."""
    assert administrate(cluster, offsets_of_groups) == EXPECTED
    for group, replicas in stored_offsets(cluster, cluster.snapshot(), GROUPS).items():
        for broker_id, stored in replicas.items():
            assert {one.index: offset for one, offset in stored.items()} == EXPECTED[group], (group, broker_id)


@kills
def test_g05_compaction_neither_resurrects_nor_loses_an_offset() -> None:
    place = TopicPartition(GROUPS_TOPIC, 0)
    with three_brokers(**COMPACTING) as cluster:
        make_topic(cluster, count=3, replicas=3)
        administrate(cluster, write_and_delete_offsets)
        before = sizes(cluster, place)
        for _ in range(3):
            administrate(cluster, write_other_offsets)
            cluster.world.run_for_ms(4_000)
        assert len(before) == 3
        assert max(sizes(cluster, place)) < min(before) / 2, "everybody has compacted"
        check_offsets(cluster)
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.restart()
        cluster.until_ready()
        cluster.until(lambda: cluster.snapshot().is_whole(place), "all replicas are back")
        check_offsets(cluster)
