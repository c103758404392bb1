"""The metrics of real brokers: every series that stock dashboards and alerts ask for is there, and says what is so."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cluster.waiting import eventually
from tidelog.cli.metrics import Sample, samples
from tidelog.client import Consumer
from tidelog.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ASKED_FOR = Path(__file__).with_name("dashboard_series.txt")


CONFIG: dict[str, str | int | float | bool] = {
    "metrics.listeners": "http://127.0.0.1:0",
    "replica.lag.time.max.ms": 1_000,
}


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3, topics={"orders": 6}, config=CONFIG) as kafka:
        kafka.produce("orders", [b"x" * 100] * 10, partition=0)
        asyncio.run(_read_and_commit(kafka.bootstrap_servers, count=4))
        yield kafka


async def _read_and_commit(bootstrap: str, *, count: int) -> None:
    settings: dict[str, str | int | float | bool] = {
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "max.poll.records": count,
    }
    async with Consumer(bootstrap, settings) as consumer:
        consumer.group.subscribe(["orders"])
        read = 0
        while read < count:
            read += len(await consumer.poll(timeout_ms=500))
        await consumer.group.commit()


def urls(kafka: Cluster, *brokers: int) -> list[str]:
    chosen = [word for broker in brokers or kafka.broker_ids for word in ("--broker", str(broker))]
    command = [sys.executable, "-m", "tidelog", "metrics", "--urls", "-b", kafka.bootstrap_servers, *chosen]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def page_at(url: str) -> tuple[str | None, str]:
    with urlopen(url, timeout=60) as page:  # noqa: S310  # a broker of this test
        return page.headers["Content-Type"], page.read().decode()


def seen(kafka: Cluster, *brokers: int) -> list[Sample]:
    return [sample for url in urls(kafka, *brokers) for sample in samples(0, page_at(url)[1])]


def total(found: list[Sample], name: str, **labels: str) -> float:
    """The sum of a series over all brokers, as dashboards make it; without labels only of what has none."""
    return sum(
        one.value
        for one in found
        if one.name == name and (one.labels.items() >= labels.items() if labels else not one.labels)
    )


def asked_for() -> list[tuple[str, set[str]]]:
    """Series, and the labels by which they are chosen."""
    lines = (line.strip() for line in ASKED_FOR.read_text().splitlines())
    halves = [line.rstrip("}").partition("{") for line in lines if line and not line.startswith("#")]
    return [(name, set(filter(None, labels.split(",")))) for name, _, labels in halves]


def test_every_series_that_stock_dashboards_and_alerts_ask_for_is_there_with_its_labels(three: Cluster) -> None:
    found = {(one.name, frozenset(one.labels)) for one in seen(three)}
    missing = [
        (name, labels)
        for name, labels in asked_for()
        if not any(name == there and labels <= having for there, having in found)
    ]
    assert missing == []


def test_the_controller_tells_where_each_broker_is(three: Cluster) -> None:
    told = {one.labels["id"]: one.labels["address"] for one in seen(three) if one.name == "kafka_broker_info"}
    assert told == {str(broker): at for broker, at in enumerate(three.bootstrap_servers.split(","), 1)}


def test_the_series_say_what_is_so(three: Cluster) -> None:
    found = seen(three)
    assert total(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert total(found, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert total(found, "kafka_brokers") == 3
    assert total(found, "kafka_topic_partitions", topic="orders") == 6
    assert total(found, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert total(found, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 10
    assert total(found, "kafka_server_brokertopicmetrics_bytesin_total", topic="orders") > 1_000
    assert total(found, "kafka_server_brokertopicmetrics_bytesout_total", topic="orders") > 1_000
    copied = total(found, "kafka_server_brokertopicmetrics_replicationbytesin_total", topic="orders")
    assert copied == total(found, "kafka_server_brokertopicmetrics_bytesin_total", topic="orders") * 2
    first = {"topic": "orders", "partition": "0"}
    assert total(found, "kafka_topic_partition_current_offset", **first) == 10
    assert total(found, "kafka_topic_partition_in_sync_replica", **first) == 3
    assert total(found, "kafka_log_log_logendoffset", **first) == 30
    of_group = {"consumergroup": "readers", "topic": "orders", "partition": "0"}
    committed = total(found, "kafka_consumergroup_current_offset", **of_group)
    assert committed >= 4
    assert total(found, "kafka_consumergroup_lag", **of_group) == 10 - committed
    assert total(found, "kafka_consumergroup_lag_sum", consumergroup="readers", topic="orders") == 10 - committed
    assert total(found, "kafka_network_requestmetrics_requests_total", request="Produce") >= 1
    assert total(found, "kafka_network_requestmetrics_totaltimems_count", request="Fetch") >= 1


@pytest.fixture
def mortal() -> Iterator[Cluster]:
    """A cluster of its own for whoever kills: a broker that was started anew counts from 0."""
    with Cluster(3, topics={"orders": 6}, config=CONFIG) as kafka:
        yield kafka


def test_a_dead_broker_shows_in_what_the_others_say(mortal: Cluster) -> None:
    places = urls(mortal, 1, 2)

    def told(name: str, **labels: str) -> float:
        return total([sample for url in places for sample in samples(0, page_at(url)[1])], name, **labels)

    mortal.kill(3)
    try:
        eventually(
            lambda: told("kafka_topic_partition_under_replicated_partition", topic="orders") == 6,
            "all partitions of the topic are told to lack a replica",
        )
        assert told("kafka_server_replicamanager_underreplicatedpartitions") >= 6
        eventually(lambda: told("kafka_brokers") == 2, "the controller counts two brokers")
    finally:
        mortal.start_broker(3)
        for partition in range(6):
            mortal.wait_for_isr("orders", partition)
    eventually(lambda: told("kafka_server_replicamanager_isrexpands_total") >= 1, "the ISR is told to have grown")
    assert total(seen(mortal), "kafka_topic_partition_under_replicated_partition", topic="orders") == 0


def test_a_follower_that_cannot_fetch_shows_in_what_its_leader_shrank(mortal: Cluster) -> None:
    leader = mortal.controller()  # so that it is not cut off from it: nobody could shrink anything then
    mortal.wait_for_isr("orders")
    if mortal.leader("orders") != leader:
        mortal.move_leader("orders", to=leader)
    (url,) = urls(mortal, leader)

    def shrunk() -> float:
        return total(list(samples(0, page_at(url)[1])), "kafka_server_replicamanager_isrshrinks_total")

    before = shrunk()
    mortal.cut(leader, leader % 3 + 1)
    mortal.produce("orders", ["x"], partition=0, timeout_s=60)  # who has all there is lags behind nobody
    eventually(lambda: shrunk() > before, "the leader counts a replica out")


def test_the_page_is_what_prometheus_reads(three: Cluster) -> None:
    """Families stand together, each under one TYPE, and no sample is told twice."""
    content_type, page = page_at(*urls(three, 1))
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    lines = page.splitlines()
    types = [line.split() for line in lines if line.startswith("# TYPE ")]
    assert len({name for _, _, name, _ in types}) == len(types)
    told = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(set(told)) == len(told)
    family = ""
    for line in lines:
        if line.startswith("# TYPE "):
            family = line.split()[2]
        else:
            assert line.startswith(family)
