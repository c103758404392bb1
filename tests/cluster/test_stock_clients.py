"""Stock Python clients, told nothing but where the brokers are, while the leader they talk to is killed and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.stock_clients import Aiokafka, Confluent, KafkaPython, StockClient
from tests.cluster.waiting import eventually
from tests.cluster.witness import Witness
from tests.compatibility.processes import TidelogCluster
from tidelog.model import TopicPartition

pytestmark = [pytest.mark.timed, pytest.mark.timeout(180)]
RECORDS_AT_A_TIME = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers with the settings they come with."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def values(phase: str) -> list[bytes]:
    return [f"{phase} {number}".encode() for number in range(RECORDS_AT_A_TIME)]


@pytest.mark.parametrize("make", [Confluent, KafkaPython, Aiokafka])
def test_a_client_sends_and_reads_on_while_its_leader_is_killed(
    cluster: TidelogCluster, make: Callable[[str, str], StockClient]
) -> None:
    topic = f"kept-by-{make.__name__.lower()}"
    witness = Witness({broker_id: f"127.0.0.1:{port}" for broker_id, port in cluster.ports.items()}, topic)
    witness.create_topic(1)
    client = make(cluster.bootstrap, topic)
    try:
        client.begin(values("before"))
        client.read(max(client.finish()) + 1)
        leader = witness.leaders()[TopicPartition(topic, 0)].leader_id
        client.begin(values("meanwhile"))
        cluster.kill(leader)
        client.begin(values("without it"))
        client.read(max(client.finish()) + 1)
        cluster.restart(leader)
        client.begin(values("together again"))
        delivered = client.finish()
        read = client.read(max(delivered) + 1)
    finally:
        client.close()
    assert len(delivered) == 4 * RECORDS_AT_A_TIME
    assert {offset: read.get(offset) for offset in delivered} == delivered
    eventually(
        lambda: {len(row.isr) for row in witness.leaders().values()} == {3}, "all three replicas are in sync again"
    )
