"""What `tidelog brokers` makes of a cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cluster.waiting import eventually
from tidelog.cli.broker_process import holder_of
from tidelog.cli.brokers import broker_rows, directory_rows
from tidelog.cli.failure import CommandFailed
from tidelog.client import ClusterDescription, Leader, LogDirDescription, PartitionMetadata, TopicMetadata
from tidelog.model import BrokerEndpoint, ErrorCode, TopicPartition
from tidelog.testing import Cluster
from tidelog.testing.ports import free_ports

CLUSTER = ClusterDescription(
    cluster_id="id",
    controller_id=2,
    brokers=(BrokerEndpoint(1, "a", 9092, "east"), BrokerEndpoint(2, "b", 9093)),
)


def test_each_broker_with_what_it_leads_has_and_keeps_up_with() -> None:
    partitions = (
        PartitionMetadata(index=0, leader=Leader(1, 0), replicas=(1, 2), isr=(1, 2)),
        PartitionMetadata(index=1, leader=Leader(1, 0), replicas=(2, 1), isr=(1,)),
    )
    topics = [TopicMetadata(name="t", topic_id=None, is_internal=False, partitions=partitions)]
    first, second = broker_rows(CLUSTER, topics, {1: 77})
    assert (first["address"], first["rack"], first["is_controller"], first["controller"]) == (
        "a:9092",
        "east",
        False,
        None,
    )
    assert (first["leaders"], first["replicas"], first["in_sync"], first["epoch"]) == (2, 2, 2, 77)
    assert (second["controller"], second["leaders"], second["replicas"], second["in_sync"]) == ("*", 0, 2, 1)
    assert second["epoch"] is None


def test_a_directory_with_its_size_and_what_is_wrong_with_it() -> None:
    good = LogDirDescription(
        path="/a",
        code=ErrorCode.NONE,
        sizes={TopicPartition("t", 0): 1500, TopicPartition("t", 1): 500},
        usable_bytes=10_000,
    )
    bad = LogDirDescription(path="/b", code=ErrorCode.KAFKA_STORAGE_ERROR, sizes={})
    first, second = directory_rows([good, bad])
    assert (first["partitions"], first["size_bytes"], first["size"], first["free"]) == (2, 2000, "2.0 kB", "10.0 kB")
    assert (first["error"], second["error"], second["free"]) == (None, "KAFKA_STORAGE_ERROR", None)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("10.1.2.3", "only one at a loopback address is killed"),
        ("127.0.0.1", "is not one of Tidelog's: its port is held by"),
    ],
)
def test_only_a_broker_of_ours_on_this_machine_is_killed(host: str, sentence: str) -> None:
    stranger = [sys.executable, "-c", "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
                "print(s.getsockname()[1], flush=True); sys.stdin.read()"]  # fmt: skip
    with subprocess.Popen(stranger, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with pytest.raises(CommandFailed, match=sentence):
            holder_of(BrokerEndpoint(2, host, port))
        assert process.poll() is None


def test_a_port_that_nobody_has_is_told_of() -> None:
    (port,) = free_ports(1)
    with pytest.raises(CommandFailed, match=f"no process that we may look at listens on port {port}"):
        holder_of(BrokerEndpoint(2, "127.0.0.1", port))


def test_a_broker_that_is_killed_is_gone() -> None:
    with Cluster(2) as kafka:
        done = subprocess.run(
            [sys.executable, "-m", "tidelog", "brokers", "kill", "2", "-b", kafka.bootstrap_servers],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("killed broker 2 (process ")
        eventually(lambda: not kafka.is_alive(2), "broker 2 is dead")
        assert kafka.is_alive(1)
