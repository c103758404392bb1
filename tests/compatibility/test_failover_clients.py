"""The Java clients and KafkaJS, told nothing but where the brokers are, while the leader they talk to is killed and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tests.cluster.witness import Witness
from tests.compatibility.apache_kafka import ToolMissing, jars, old_client_jars
from tests.compatibility.drivers import Driver, java_driver, kafkajs, kafkajs_driver
from tests.compatibility.processes import TidelogCluster
from tidelog.model import TopicPartition

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]
RECORDS_AT_A_TIME = 200
Connect = Callable[[str, Path], Driver]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers with the settings they come with."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def connected(connect: Connect, cluster: TidelogCluster, classes: Path) -> Driver:
    try:
        return connect(cluster.bootstrap, classes)
    except ToolMissing as missing:
        pytest.skip(str(missing))


def delivered(rows: list[list[str]]) -> dict[int, str]:
    return {int(offset): value for offset, value in rows}


def send_through_failover(driver: Driver, cluster: TidelogCluster, witness: Witness, topic: str) -> dict[int, str]:
    """Send before, during and after the death of the leader; the values by the offsets that the client was told."""
    place = TopicPartition(topic, 0)
    told = delivered(driver.ask("send-on", 0, RECORDS_AT_A_TIME))
    leader = witness.leaders()[place]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(driver.ask, "send-on", RECORDS_AT_A_TIME, 2 * RECORDS_AT_A_TIME)
        eventually(lambda: witness.leaders()[place].log_end_offset > leader.log_end_offset, "the leader has some of it")
        cluster.kill(leader.leader_id)
        told |= delivered(sending.result())
    cluster.restart(leader.leader_id)
    told |= delivered(driver.ask("send-on", 2 * RECORDS_AT_A_TIME, 3 * RECORDS_AT_A_TIME))
    assert sorted(map(int, told.values())) == list(range(3 * RECORDS_AT_A_TIME))
    eventually(lambda: len(witness.leaders()[place].isr) == 3, "all three replicas are in sync again")
    return told


def witness_of(cluster: TidelogCluster, topic: str) -> Witness:
    witness = Witness({broker_id: f"127.0.0.1:{port}" for broker_id, port in cluster.ports.items()}, topic)
    witness.create_topic(1)
    return witness


@pytest.mark.parametrize("client_jars", [old_client_jars, jars], ids=["3.x", "newest"])
def test_java_sends_and_reads_on_while_its_leader_is_killed(
    cluster: TidelogCluster, client_jars: Callable[[], Path], topic: str, tmp_path: Path
) -> None:
    witness = witness_of(cluster, topic)
    with connected(lambda bootstrap, at: java_driver(client_jars(), at, bootstrap), cluster, tmp_path) as driver:
        driver.ask("stay", topic)
        told = send_through_failover(driver, cluster, witness, topic)
        read = delivered(driver.ask("read-on", max(told) + 1))
    assert read == told, "idempotent by default: what was delivered, and nothing else"


def test_kafkajs_sends_on_while_its_leader_is_killed(cluster: TidelogCluster, topic: str, tmp_path: Path) -> None:
    witness = witness_of(cluster, topic)
    with connected(lambda bootstrap, _: kafkajs_driver(kafkajs(), bootstrap), cluster, tmp_path) as driver:
        driver.ask("stay", topic)
        told = send_through_failover(driver, cluster, witness, topic)
        received = driver.consume(topic, max(told) + 1)
    read = {each.offset: each.message.value for each in received}
    assert {offset: read[offset] for offset in told} == {offset: value.encode() for offset, value in told.items()}
