"""Consumers of one group: they share, take over, remember, and are fenced; in both protocols, through the deaths of coordinators."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import kills
from tests.simulation.group_members import (
    CLASSIC,
    CONSUMER,
    COOPERATIVE,
    FAST,
    Member,
    committed,
    coordinator,
    make_topic,
    produce,
    share_all,
)
from tests.simulation.story import passed
from tidelog.client import CommitFailed
from tidelog.client.groups.offset_commits import Committed
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

PROTOCOLS = pytest.mark.parametrize(
    "protocol", [CLASSIC, COOPERATIVE, CONSUMER], ids=["eager", "cooperative", "consumer"]
)
T0 = TopicPartition("t", 0)


def one_broker(seed: int = 1) -> SimulatedCluster:
    settings = {**FAST, "offsets.topic.replication.factor": "1"}
    return SimulatedCluster(seed, brokers=1, settings=settings)


def three_brokers(seed: int = 1) -> SimulatedCluster:
    settings = {**FAST, "offsets.topic.replication.factor": "3", "min.insync.replicas": "2"}
    return SimulatedCluster(seed, brokers=3, settings=settings)


def offsets(cluster: SimulatedCluster, count: int) -> dict[int, int]:
    return {index: -1 if each is None else each.offset for index, each in committed(cluster, count=count).items()}


@pytest.mark.slow
@kills
@PROTOCOLS
def test_two_consumers_share_and_one_takes_over_from_the_other(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=4)
        first, second = Member(cluster, "first", protocol), Member(cluster, "second", protocol)
        cluster.until(share_all(4, first, second), "both have two")
        produce(cluster, range(40), count=4)
        cluster.until(lambda: len(first.values | second.values) == 40, "everything was read")
        second.kill()
        cluster.until(share_all(4, first), "the first has all")
        produce(cluster, range(40, 60), count=4)
        cluster.until(lambda: len(first.values | second.values) == 60, "everything was read")
        first.stop(cluster)
        assert offsets(cluster, 4) == dict.fromkeys(range(4), 15)


@pytest.mark.slow
@PROTOCOLS
def test_consumer_that_closes_hands_over_at_once_and_nothing_is_read_twice(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=4)
        first, second = Member(cluster, "first", protocol), Member(cluster, "second", protocol)
        cluster.until(share_all(4, first, second), "both have two")
        produce(cluster, range(40), count=4)
        cluster.until(lambda: len(first.values | second.values) == 40, "everything was read")
        second.stop(cluster)
        cluster.until(share_all(4, first), "the first has all", within_ms=5_000)  # sooner than a session lapses
        produce(cluster, range(40, 60), count=4)
        cluster.until(lambda: len(first.values | second.values) == 60, "everything was read")
        first.stop(cluster)
        assert len(first.seen) + len(second.seen) == 60


@pytest.mark.slow
@kills
@PROTOCOLS
def test_nothing_committed_is_forgotten_when_the_coordinator_is_killed(protocol: dict[str, str]) -> None:
    with three_brokers() as cluster:
        make_topic(cluster, count=4, replicas=3)
        first, second = Member(cluster, "first", protocol), Member(cluster, "second", protocol)
        cluster.until(share_all(4, first, second), "both have two")
        produce(cluster, range(40), count=4)
        cluster.until(lambda: offsets(cluster, 4) == dict.fromkeys(range(4), 10), "everything is committed")
        lost_before = [event for member in (first, second) for event in member.events if event[0] == "lost"]
        cluster.brokers[coordinator(cluster)].kill()
        assert offsets(cluster, 4) == dict.fromkeys(range(4), 10)
        produce(cluster, range(40, 60), count=4)
        cluster.until(lambda: len(first.values | second.values) == 60, "everything was read")
        cluster.until(share_all(4, first, second), "both have two")
        cluster.until(lambda: offsets(cluster, 4) == dict.fromkeys(range(4), 15), "everything is committed")
        assert [e for member in (first, second) for e in member.events if e[0] == "lost"] == lost_before
        first.stop(cluster)
        second.stop(cluster)


@pytest.mark.slow
@kills
@PROTOCOLS
def test_zombie_that_wakes_up_commits_nothing_and_is_told_what_it_lost(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=2)
        zombie = Member(cluster, "zombie", {**protocol, "enable.auto.commit": "false"})
        cluster.until(share_all(2, zombie), "it has both")
        produce(cluster, range(10), count=2)
        cluster.until(lambda: len(zombie.values) == 10, "everything was read")
        zombie.node.pause()
        other = Member(cluster, "other", protocol)
        cluster.until(share_all(2, other), "the other has both")
        cluster.until(lambda: offsets(cluster, 2) == {0: 5, 1: 5}, "the other has committed")
        zombie.node.resume()

        async def commit(runtime: Runtime) -> None:
            assert zombie.consumer is not None
            with pytest.raises(CommitFailed):
                await zombie.consumer.group.commit({T0: Committed(1)})
            await passed(0)

        async def watched() -> None:
            await zombie.node.spawn(commit(zombie.node.runtime))

        cluster.world.run(watched())
        assert offsets(cluster, 2) == {0: 5, 1: 5}
        cluster.until(share_all(2, zombie, other), "they share")
        assert ("lost", (T0, TopicPartition("t", 1))) in zombie.events
        zombie.stop(cluster)
        other.stop(cluster)


@pytest.mark.slow
@kills
@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_static_member_that_restarts_finds_its_partitions_and_nobody_else_notices(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=4)
        stays = Member(cluster, "stays", {**protocol, "group.instance.id": "a"})
        leaves = Member(cluster, "leaves", {**protocol, "group.instance.id": "b"})
        cluster.until(share_all(4, stays, leaves), "both have two")
        had, events = set(leaves.owned), list(stays.events)
        leaves.stop(cluster)
        back = Member(cluster, "back", {**protocol, "group.instance.id": "b"})
        cluster.until(share_all(4, stays, back), "both have two")
        assert back.owned == had
        assert stays.events == events
        stays.stop(cluster)
        back.stop(cluster)


@pytest.mark.slow
@PROTOCOLS
def test_only_eager_members_give_up_what_they_keep(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=4)
        first = Member(cluster, "first", protocol)
        cluster.until(share_all(4, first), "it has all")
        second = Member(cluster, "second", protocol)
        cluster.until(share_all(4, first, second), "both have two")
        given_up = {partition for what, partitions in first.events if what == "revoked" for partition in partitions}
        assert len(given_up) == (4 if protocol == CLASSIC else 2)
        first.stop(cluster)
        second.stop(cluster)


@pytest.mark.slow
@PROTOCOLS
def test_consumer_that_is_not_polled_leaves_and_comes_back_with_the_next_poll(protocol: dict[str, str]) -> None:
    with one_broker() as cluster:
        make_topic(cluster, count=2)
        busy = Member(cluster, "busy", {**protocol, "max.poll.interval.ms": "3000"})
        other = Member(cluster, "other", protocol)
        cluster.until(share_all(2, busy, other), "they share")
        busy.works_for_s = 20
        cluster.until(lambda: len(other.owned) == 2, "the other has both", within_ms=15_000)
        busy.works_for_s = 0
        cluster.until(share_all(2, busy, other), "they share again")
        busy.stop(cluster)
        other.stop(cluster)


@pytest.mark.slow
@kills
@PROTOCOLS
@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_is_delivered_at_least_once_over_kills(protocol: dict[str, str], seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, count=4, replicas=3)
        members = [Member(cluster, f"member-{number}", protocol) for number in range(2)]
        gone: list[Member] = []
        produced = 0
        for round_ in range(3):
            cluster.until(share_all(4, *members), "they share")
            produce(cluster, range(produced, produced + 40), count=4)
            produced += 40
            gone.append(members.pop(0))
            gone[-1].kill()
            victim = cluster.brokers[coordinator(cluster)]
            victim.kill()
            members.append(Member(cluster, f"member-{round_ + 2}", protocol))
            produce(cluster, range(produced, produced + 40), count=4)
            produced += 40
            victim.restart()
            cluster.until_ready()
        everyone = [*members, *gone]
        cluster.until(
            lambda: len(set().union(*(member.values for member in everyone))) == produced,
            "everything was delivered",
            within_ms=120_000,
        )
        for member in members:
            member.stop(cluster)
