"""The clusters of the tests do what tests of faults ask of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.compatibility.processes import ProcessFailed, TidelogCluster, wait_until_gone

pytestmark = pytest.mark.slow


def send(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 30_000})
    producer.produce("kept", value)
    assert producer.flush(30) == 0


def broker_count(bootstrap: str) -> int:
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).brokers)


@pytest.mark.timed
def test_brokers_are_killed_stopped_continued_and_started_again_one_by_one(tmp_path: Path) -> None:
    with TidelogCluster(tmp_path, {"tidelog.registry.session.timeout.ms": "1500"}) as cluster:
        assert sorted(cluster.pids) == [1, 2, 3]
        send(cluster.bootstrap, b"all three")
        cluster.kill(1)
        assert sorted(cluster.pids) == [2, 3]
        send(cluster.bootstrap, b"two of three")
        cluster.restart(1)
        assert sorted(cluster.pids) == [1, 2, 3]
        before = cluster.pids
        cluster.stop(2)
        cluster.cont(2)
        assert cluster.pids == before
        assert cluster.shut_down(3) == 0
        send(cluster.bootstrap, b"without the third")
        cluster.restart(3)
        deadline = time.monotonic() + 60
        while broker_count(cluster.bootstrap) < 3:
            assert time.monotonic() < deadline
        pids = list(cluster.pids.values())
    wait_until_gone(*pids)


def test_waiting_for_a_process_that_stays_fails_in_time() -> None:
    with pytest.raises(ProcessFailed, match="still there"):
        wait_until_gone(1, timeout_s=0.05)
