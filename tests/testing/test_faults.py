"""Faults as verbs: what clients and replicas make of a cluster in which something goes wrong, and what they make of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog.client import DeliveryTimeout, Producer
from tidelog.client.bridge import Bridge
from tidelog.testing import Cluster, ClusterFailed
from tidelog.testing.pytest_plugin import _numbers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

#: A follower that says nothing for a second is behind.
IMPATIENT = {"replica.lag.time.max.ms": 1_000}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(3, config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture
def three(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.end_faults()


@pytest.fixture
def topic(three: Cluster) -> str:
    """Led by a broker that is not the controller: who cannot reach the controller cannot do without a follower."""
    name = three.create_topic(f"orders-{next(_numbers)}")
    three.wait_for_isr(name)
    three.move_leader(name, to=next(each for each in three.broker_ids if each != three.controller()))
    return name


def other_follower(cluster: Cluster, topic: str) -> int:
    """The follower that is not the controller."""
    known = {cluster.controller(), cluster.leader(topic)}
    return next(broker for broker in cluster.broker_ids if broker not in known)


def values(cluster: Cluster, topic: str, at_least: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic, at_least=at_least)]


def test_a_follower_that_is_cut_off_falls_out_of_sync_until_the_link_is_mended(three: Cluster, topic: str) -> None:
    leader, follower = three.wait_for_leader(topic), other_follower(three, topic)
    three.cut(leader, follower)
    assert three.faults()[leader] == [f"cut from broker {follower}"]
    three.produce(topic, ["sent without it"])
    assert follower not in three.wait_for_isr(topic, size=2)
    three.mend(follower, leader)
    assert three.wait_for_isr(topic) == [1, 2, 3]
    assert values(three, topic) == [b"sent without it"]


def test_clients_that_are_cut_off_wait_and_are_answered_in_the_end(three: Cluster, topic: str) -> None:
    leader = three.wait_for_leader(topic)

    async def send() -> None:
        settings = {"delivery.timeout.ms": 600, "request.timeout.ms": 300, "linger.ms": 0}
        async with Producer(three.bootstrap_servers, settings) as producer:
            three.cut(leader, "clients")
            await (await producer.send(topic, b"never acknowledged"))

    with Bridge() as bridge, pytest.raises(DeliveryTimeout):
        bridge.run(send())
    three.mend()
    three.produce(topic, ["after"])
    assert values(three, topic)[-1] == b"after"


def test_an_error_is_given_so_many_times_and_nothing_is_done(three: Cluster, topic: str) -> None:
    leader = three.wait_for_leader(topic)
    three.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2, broker=leader)
    assert three.faults()[leader] == ["Produce answered with NOT_ENOUGH_REPLICAS, 2 times"]
    three.produce(topic, ["sent thrice"])
    assert three.faults()[leader] == []
    three.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=3, broker=leader)
    assert values(three, topic, at_least=1) == [b"sent thrice"]
    assert three.faults()[leader] == []


def test_a_delay_holds_until_it_is_ended(three: Cluster, topic: str) -> None:
    leader = three.wait_for_leader(topic)
    three.delay("ListOffsets", 1, broker=leader)
    three.delay("Fetch", 1, broker=leader, times=1)
    three.produce(topic, ["late"])
    assert values(three, topic) == [b"late"]
    assert three.faults()[leader] == ["ListOffsets 1 ms late, until it is ended"]
    three.end_faults()
    assert three.faults() == {1: [], 2: [], 3: []}


def test_a_broker_without_room_falls_behind_and_catches_up_when_there_is_room(three: Cluster, topic: str) -> None:
    follower = other_follower(three, topic)
    three.fill_disk(follower)
    three.produce(topic, ["no room for that"])
    assert follower not in three.wait_for_isr(topic, size=2)
    three.free_disk(follower)
    assert three.wait_for_isr(topic) == [1, 2, 3]


def test_a_group_is_looked_after_by_whom_one_likes(three: Cluster) -> None:
    first = three.coordinator("billing")
    second = three.move_coordinator("billing")
    assert second != first
    assert three.coordinator("billing") == second
    assert three.move_coordinator("billing", to=first) == first


@pytest.mark.parametrize(
    ("verb", "arguments", "sentence"),
    [
        ("fail", ("Prodce", "NOT_ENOUGH_REPLICAS"), "Kafka has no API 'Prodce'; did you mean Produce?"),
        ("fail", ("Produce", "NOT_ENOUGH"), "Kafka has no error 'NOT_ENOUGH'; did you mean NOT_ENOUGH_REPLICAS?"),
        ("fail", ("Metadata", "NOT_CONTROLLER"), "Metadata cannot be answered with an error; these can: "),
        ("delay", ("Fetch", 0), "a delay is 1 to 600000 ms, not 0"),
        ("cut", (1, "everybody"), "another broker or 'clients', not 'everybody'"),
        ("cut", (2, 2), "another broker or 'clients', not 2"),
        ("cut", (9, 1), "there is no broker 9 at work; there are 1, 2, 3"),
        ("fill_disk", (0,), "there is no broker 0 at work; there are 1, 2, 3"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    three: Cluster, verb: str, arguments: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(ClusterFailed) as raised:
        getattr(three, verb)(*arguments)
    assert sentence in str(raised.value)
    assert three.faults() == {1: [], 2: [], 3: []}


@pytest.mark.parametrize("times", [-1, 0])
def test_for_ever_is_not_what_a_wrong_number_of_times_means(three: Cluster, times: int) -> None:
    with pytest.raises(ClusterFailed, match=f"{times} is not how many times: that is 1 or more, or None"):
        three.fail("Produce", "NOT_ENOUGH_REPLICAS", times=times)
    assert three.faults() == {1: [], 2: [], 3: []}


def test_a_broker_that_is_for_more_than_tests_does_not_obey() -> None:
    with Cluster(1, config={"tidelog.faults.enable": False}) as serious:
        with pytest.raises(ClusterFailed, match="broker 1 was not started for tests"):
            serious.fill_disk(1)
        serious.produce(serious.create_topic("orders"), ["fine"])
