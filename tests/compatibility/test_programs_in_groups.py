"""Programs that people run, as members of groups: kcat, and Kafka's console and verifiable consumers. They share, resume, and survive the
death of whoever coordinates them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.apache_kafka import jars, java
from tests.compatibility.drivers import Driver, tools_driver
from tests.compatibility.group_facts import (
    PARTITIONS,
    SETTINGS,
    committed,
    coordinator_of,
    create_topic,
    group_coordinated_by,
    send,
    wait_until_committed,
)
from tests.compatibility.processes import RunningProcess, TidelogCluster

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]

CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE: Final = "org.apache.kafka.tools.VerifiableConsumer"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers that wait for nobody before a group's first generation."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def tools(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Kafka's tools in one JVM."""
    with tools_driver(jars(), tmp_path_factory.mktemp("tools")) as driver:
        yield driver


def first_coordinator(cluster: TidelogCluster, group_id: str) -> int:
    one_broker = cluster.bootstrap.split(",")[0]
    return eventually(lambda: coordinator_of(one_broker, group_id), "groups have coordinators")


def kcat_member(kcat_path: str, bootstrap: str, topic: str, group_id: str) -> RunningProcess:
    settings = ["auto.offset.reset=earliest", "auto.commit.interval.ms=200", "heartbeat.interval.ms=500"]
    options = [word for setting in settings for word in ("-X", setting)]
    return RunningProcess([kcat_path, "-b", bootstrap, "-u", *options, "-f", r"read %s\n", "-G", group_id, topic])


def wait_until_assigned(member: RunningProcess, count: int) -> None:
    """Wait until kcat says that it owns so many partitions."""
    member.wait_for(r"rebalanced.*assigned: " + ", ".join([r"\S+ \[\d+\]"] * count) + "$")


def wait_until_read(member: RunningProcess, values: Collection[bytes], count: int) -> set[str]:
    """Wait until kcat has printed so many of the values."""
    names = {value.decode() for value in values}
    found: set[str] = set()
    while len(found) < count:
        found |= {member.wait_for(r"^read (\d+)$")[1]} & names
    return found


def test_kcat_shares_resumes_and_survives_its_coordinator(cluster: TidelogCluster, topic: str, kcat_path: str) -> None:
    bootstrap = cluster.bootstrap
    create_topic(bootstrap, topic)
    killed = first_coordinator(cluster, topic)
    sent = send(bootstrap, topic, 0)
    with kcat_member(kcat_path, bootstrap, topic, topic) as first:
        wait_until_assigned(first, 4)
        wait_until_read(first, sent, 100)
        with kcat_member(kcat_path, bootstrap, topic, topic) as second:
            wait_until_assigned(first, 2)
            wait_until_assigned(second, 2)
            more = send(bootstrap, topic, 100)
            assert wait_until_read(first, more, 50).isdisjoint(wait_until_read(second, more, 50))
            wait_until_committed(bootstrap, topic, topic, 50)
            cluster.kill(killed)
            last = send(bootstrap, topic, 200)
            assert wait_until_read(first, last, 50).isdisjoint(wait_until_read(second, last, 50))
            wait_until_committed(bootstrap, topic, topic, 75)
    cluster.restart(killed)
    with kcat_member(kcat_path, bootstrap, topic, topic) as third:
        wait_until_assigned(third, 4)
        new = send(bootstrap, topic, 300)
        wait_until_read(third, new, 100)
        assert third.output.count("read ") == 100, "what was committed is not read again"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_resumes_where_the_last_one_stopped(
    cluster: TidelogCluster, tools: Driver, topic: str, protocol: str
) -> None:
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    where = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", topic, "--from-beginning")
    settings = ("--command-property", f"group.protocol={protocol}")
    first = tools.ask(CONSOLE, *where, *settings, "--max-messages", 60)
    # A partition that the first one never got to has no offset, which confluent-kafka tells as -1001.
    assert sum(max(0, offset) for offset in committed(cluster.bootstrap, topic, topic).values()) == 60
    second = tools.ask(CONSOLE, *where, *settings, "--max-messages", 40)
    assert sorted(int(value) for (value,) in [*first, *second]) == [int(value) for value in sent]
    assert set(committed(cluster.bootstrap, topic, topic).values()) == {25}


def verifiable_member(bootstrap: str, topic: str, group_id: str, protocol: str) -> RunningProcess:
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group_id, "--group-protocol", protocol)
    return RunningProcess(java(VERIFIABLE, *words, "--reset-policy", "earliest"))


def wait_until_told(member: RunningProcess, count: int) -> None:
    """Wait until the verifiable consumer says that it was assigned so many partitions."""
    while len(json.loads(member.wait_for(r'^\{.*"name":"partitions_assigned".*\}$')[0])["partitions"]) != count:
        pass


@pytest.mark.usefixtures("kafka_jars")
def test_verifiable_consumers_of_both_protocols_share_a_group_and_survive_its_coordinator(
    cluster: TidelogCluster, topic: str
) -> None:
    bootstrap = cluster.bootstrap
    create_topic(bootstrap, topic)
    killed = first_coordinator(cluster, topic)
    group_id = group_coordinated_by(killed, bootstrap.split(",")[0], topic)
    send(bootstrap, topic, 0)
    with verifiable_member(bootstrap, topic, group_id, "classic") as classic:
        wait_until_told(classic, len(PARTITIONS))
        wait_until_committed(bootstrap, topic, group_id, 25)
        with verifiable_member(bootstrap, topic, group_id, "consumer") as modern:
            wait_until_told(modern, 2)
            cluster.kill(killed)
            send(bootstrap, topic, 100)
            wait_until_committed(bootstrap, topic, group_id, 50)
            for member in (classic, modern):
                member.wait_for(r'"offsets_committed".*"success":true')
    cluster.restart(killed)
