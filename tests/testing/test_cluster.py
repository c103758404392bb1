"""The cluster of the test kit: real brokers, what may happen to them, and what is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import wait_until_gone
from tests.tiers import rest_proven
from tidelog.client import Consumer
from tidelog.testing import AsyncCluster, Cluster, ClusterFailed, NotInTime, Topic
from tidelog.testing.pytest_plugin import _numbers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

#: A follower that says nothing for a second is behind.
IMPATIENT = {"replica.lag.time.max.ms": 1_000}


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3, config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture
def topic(three: Cluster) -> str:
    return three.create_topic(f"orders-{next(_numbers)}")


def test_every_broker_is_named_and_what_is_sent_is_read(three: Cluster, topic: str) -> None:
    assert len(three.bootstrap_servers.split(",")) == 3
    three.produce(topic, ["one", b"two"], key="k")
    assert [(each.key, each.value) for each in three.records(topic)] == [(b"k", b"one"), (b"k", b"two")]


def test_a_killed_leader_is_replaced_and_comes_back_with_its_records(three: Cluster, topic: str) -> None:
    three.produce(topic, ["before"])
    dead = three.wait_for_leader(topic)
    three.kill(dead)
    assert not three.is_alive(dead)
    assert three.wait_for_leader(topic, other_than=dead) != dead
    three.produce(topic, ["after"])
    three.start_broker(dead)
    assert three.wait_for_isr(topic) == [1, 2, 3]
    assert [each.value for each in three.records(topic)] == [b"before", b"after"]


def test_a_paused_follower_falls_out_of_sync_and_comes_back(three: Cluster, topic: str) -> None:
    follower = next(broker for broker in three.broker_ids if broker != three.wait_for_leader(topic))
    three.pause(follower)
    try:
        others = sorted(set(three.broker_ids) - {follower})
        assert three.wait_for_isr(topic, brokers=others) == others
        assert three.is_alive(follower)
    finally:
        three.resume(follower)
    assert three.wait_for_isr(topic, size=3) == [1, 2, 3]


def test_a_broker_is_silent_as_soon_as_it_was_paused_and_answers_as_soon_as_it_was_resumed() -> None:
    with Cluster(1) as kafka:
        stat = Path(f"/proc/{kafka.pid(1)}/stat")
        for _ in range(50):
            kafka.pause(1)
            assert stat.read_text().rpartition(") ")[2][0] == "T"
            kafka.resume(1)
            assert stat.read_text().rpartition(") ")[2][0] != "T"


def test_a_stopped_broker_hands_over_and_a_restarted_one_is_back(three: Cluster, topic: str) -> None:
    leader = three.wait_for_leader(topic)
    three.stop(leader)
    assert three.wait_for_leader(topic, other_than=leader) != leader
    three.start_broker(leader)
    three.restart(leader)
    three.wait_for_isr(topic)


def test_a_leader_is_moved_to_whom_one_likes(three: Cluster, topic: str) -> None:
    three.wait_for_isr(topic)
    for broker in (3, 1, 2):
        assert three.move_leader(topic, to=broker) == broker
    assert three.move_leader(topic) != 2


def test_what_is_waited_for_in_vain_is_told_with_what_was_seen(three: Cluster, topic: str) -> None:
    with pytest.raises(NotInTime, match=rf"broker 9 to lead {topic}-0: not within 0.3 s; last seen: [123]"):
        three.wait_for_leader(topic, broker=9, timeout_s=0.3)
    with pytest.raises(NotInTime, match=r"2 in sync in .*last seen: \[1, 2, 3\] of 3 replicas"):
        three.wait_for_isr(topic, size=2, timeout_s=0.3)
    with pytest.raises(NotInTime, match=r"group nobody with 2 members: not within 0\.3 s; last seen: "):
        three.wait_for_group("nobody", members=2, timeout_s=0.3)
    with pytest.raises(NotInTime, match=r"5 records in .*last seen: 0"):
        three.records(topic, at_least=5, timeout_s=0.3)


def test_who_waits_for_what_there_is_not_is_told_its_name(three: Cluster, topic: str) -> None:
    with pytest.raises(NotInTime, match="last seen: there is no topic 'nosuch': UNKNOWN_TOPIC_OR_PARTITION"):
        three.wait_for_leader("nosuch", timeout_s=3)
    with pytest.raises(NotInTime, match=rf"last seen: topic '{topic}' has no partition 5: it has 1, numbered from 0"):
        three.wait_for_isr(topic, 5, timeout_s=3)
    with pytest.raises(NotInTime, match="last seen: there is no topic 'nosuch'"):
        three.move_leader("nosuch", timeout_s=3)
    with pytest.raises(ClusterFailed, match=rf"topic '{topic}' has no partition 5"):
        three.produce(topic, ["x"], partition=5)


def test_verbs_that_nobody_answers_end_and_say_why() -> None:
    with Cluster(1, topics=["orders"]) as kafka:
        kafka.kill(1)
        with pytest.raises(NotInTime, match=r"who leads orders-0: not within 5 s; last seen: .*lost"):
            kafka.leader("orders", timeout_s=5)
        with pytest.raises(NotInTime, match=r"a broker to lead orders-0: not within 1 s; last seen: .*lost"):
            kafka.wait_for_leader("orders", timeout_s=1)
        with pytest.raises(NotInTime, match=r"topics 'more' to be created: not within 1 s; last seen: .*lost"):
            kafka.create_topic("more", timeout_s=1)
        with pytest.raises(NotInTime, match=r"values sent to orders: not within 1 s; last seen: "):
            kafka.produce("orders", ["x"], timeout_s=1)
        with pytest.raises(ClusterFailed, match="no broker is at work, so none can be told to fail"):
            kafka.fail("Fetch", "UNKNOWN_SERVER_ERROR")


def test_what_cannot_be_done_is_a_sentence(three: Cluster, topic: str) -> None:
    with pytest.raises(ClusterFailed, match="there is no broker 4; of this cluster there are 1, 2, 3"):
        three.kill(4)
    with pytest.raises(ClusterFailed, match="there is no broker '1'; of this cluster there are 1, 2, 3"):
        three.kill("1")  # type: ignore[arg-type]  # as one without a type checker may
    with pytest.raises(ClusterFailed, match="broker 1 is running"):
        three.start_broker(1)
    with pytest.raises(ClusterFailed, match=r"broker 7 is not in sync in .*: \[1, 2, 3\] are|broker 7 is not in sync"):
        three.move_leader(topic, to=7)
    with pytest.raises(ClusterFailed, match="cannot be created: TOPIC_ALREADY_EXISTS"):
        three.create_topic(topic)
    with pytest.raises(ClusterFailed, match="cannot be created: INVALID_REPLICATION_FACTOR"):
        three.create_topic(f"{topic}-more", replicas=4)


def test_a_dead_broker_can_be_killed_no_more(three: Cluster) -> None:
    three.kill(3)
    with pytest.raises(ClusterFailed, match=r"broker 3 is not running; start_broker\(3\) starts it again"):
        three.kill(3)
    three.start_broker(3)


def test_the_picture_shows_every_replica(three: Cluster, topic: str) -> None:
    lines = [line.split() for line in three.replicas().splitlines() if line.startswith(f"{topic} ")]
    assert sorted(line[2:4] for line in lines) == sorted([str(each), role] for each, role in _roles(three, topic))
    assert "broker ready broker_id=1" in three.log(1)


def _roles(three: Cluster, topic: str) -> list[tuple[int, str]]:
    leader = three.wait_for_leader(topic)
    return [(broker, "leader" if broker == leader else "follower") for broker in three.broker_ids]


@pytest.mark.parametrize(
    ("brokers", "config", "sentence"),
    [
        (0, {}, "a cluster has 1 to 9 brokers, not 0"),
        (100, {}, "a cluster has 1 to 9 brokers, not 100"),
        ("3", {}, "a cluster has 1 to 9 brokers, not '3'"),
        (2.5, {}, "a cluster has 1 to 9 brokers, not 2.5"),
        (True, {}, "a cluster has 1 to 9 brokers, not True"),
        (1, {"num.partitions": "many"}, "num.partitions"),
        (1, {"node.id": 5}, "node.id cannot be the same for all brokers"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused_before_anything_starts(
    brokers: Any, config: dict[str, str | int], sentence: str
) -> None:
    with pytest.raises(ClusterFailed, match=sentence):
        Cluster(brokers, config=config)


def test_one_that_was_not_started_says_so() -> None:
    cluster = Cluster(1)
    with pytest.raises(ClusterFailed, match="has not been started"):
        cluster.produce("orders", ["x"])
    with pytest.raises(ClusterFailed, match="has not been started"):
        _ = cluster.data


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.touch()
    with pytest.raises(ClusterFailed, match=r"broker 1 died .* before it served\ncannot make .*Not a directory"):
        Cluster(1, data=obstacle).start()


def test_topics_are_there_from_the_start_and_settings_hold() -> None:
    topics = {"a": 3, "b": Topic(partitions=2, config={"retention.ms": 1_000, "min.insync.replicas": 1})}
    with Cluster(1, topics=topics, config={"auto.create.topics.enable": False}) as kafka:
        for index in range(3):
            kafka.wait_for_leader("a", index)
        kafka.wait_for_leader("b", 1)
        with pytest.raises(NotInTime, match="UNKNOWN_TOPIC_OR_PARTITION"):
            kafka.records("c", timeout_s=0.3)


def test_what_is_kept_is_there_the_next_time(tmp_path: Path) -> None:
    with Cluster(1, topics=["kept"], data=tmp_path) as kafka:
        kafka.produce("kept", ["still here"])
    with Cluster(1, data=tmp_path) as kafka:
        assert [each.value for each in kafka.records("kept")] == [b"still here"]


def test_several_are_there_at_once_and_nothing_is_left_of_them() -> None:
    with Cluster(1, topics=["t"]) as one, Cluster(1, topics=["t"]) as other:
        one.produce("t", ["mine"])
        assert other.records("t") == []
        places = [one.data, other.data]
        pids = [one.pid(1), other.pid(1)]
    wait_until_gone(*pids)
    assert not any(place.exists() for place in places)


_VICTIM = """
import signal, sys
for number in (signal.SIGHUP, signal.SIGQUIT):  # which those who start tests by nohup, or in the background, pass on as ignored
    signal.signal(number, signal.SIG_DFL)
from tidelog.testing import Cluster
with Cluster(3) as kafka:
    kafka.pause(2)
    print(kafka.data, *map(kafka.pid, kafka.broker_ids), flush=True)
    sys.stdin.read()
"""


_ENDS = [
    (os.killpg, signal.SIGTERM),
    (os.kill, signal.SIGKILL),
    (os.kill, signal.SIGINT),
    (os.kill, signal.SIGTERM),
    (os.killpg, signal.SIGHUP),
    (os.killpg, signal.SIGINT),
    (os.killpg, signal.SIGQUIT),
    (os.killpg, signal.SIGKILL),
]


@pytest.mark.parametrize("end", rest_proven(_ENDS, now=2), ids=lambda end: f"{end[0].__name__}-{end[1].name}")
def test_nothing_is_left_of_a_test_that_dies_alone_or_with_its_group(
    end: tuple[Callable[[int, int], None], signal.Signals],
) -> None:
    send, number = end
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    with victim:
        assert victim.stdout is not None
        place, *pids = victim.stdout.readline().decode().split()
        send(victim.pid, number)
        victim.wait(60)
    wait_until_gone(*map(int, pids))
    eventually(lambda: not Path(place).exists(), f"{place} is removed")


async def _member(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(bootstrap, {"group.id": "readers", "auto.offset.reset": "earliest"})
    await consumer.__aenter__()
    consumer.group.subscribe([topic])
    return consumer


def test_a_group_is_waited_for_on_an_event_loop() -> None:
    import asyncio

    async def story() -> None:
        async with AsyncCluster(1, topics={"orders": 2}) as kafka:
            await kafka.produce("orders", ["x"])
            first = await _member(kafka.bootstrap_servers, "orders")
            second = await _member(kafka.bootstrap_servers, "orders")
            polling = [asyncio.ensure_future(_poll(each)) for each in (first, second)]
            await kafka.wait_for_group("readers", members=2, state="stable")
            assert await kafka.coordinator("readers") == 1
            for task in polling:
                task.cancel()
            await first.close()
            await second.close()
            await kafka.wait_for_group("readers", members=0)

    asyncio.run(story())


async def _poll(consumer: Consumer) -> None:
    while True:
        await consumer.poll(timeout_ms=100)
