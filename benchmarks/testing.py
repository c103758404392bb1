"""A cluster for tests beside Apache Kafka started for tests: `python -m benchmarks.testing`.

What a test waits for: brokers that are started for it, from nothing (Kafka's storage is formatted first, as its images do, and no image is
pulled or container made, which comes on top there) to the first record that all replicas acknowledged and a consumer has; what it takes to
end them; and a test that shares brokers with others, for which a topic is made. One client, confluent-kafka; the two take turns.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget to export it

from benchmarks.loads import TIMEOUT_S
from benchmarks.statistics import Summary, ratio
from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing
from tests.compatibility.apache_kafka_cluster import KafkaCluster
from tidelog.testing import Cluster

TESTS_PER_ROUND: Final = 10
_numbers: Final = itertools.count()

Start = Callable[[int, Path], AbstractContextManager[str]]


@contextmanager
def tidelog(broker_count: int, directory: Path) -> Iterator[str]:
    """Brokers of the test kit; the addresses."""
    with Cluster(broker_count, data=directory) as cluster:
        yield cluster.bootstrap_servers


@contextmanager
def kafka(broker_count: int, directory: Path) -> Iterator[str]:
    """Brokers of Apache Kafka; the addresses."""
    with KafkaProcess(directory) if broker_count == 1 else KafkaCluster(directory, brokers=broker_count) as cluster:
        yield cluster.bootstrap


STARTS: Final[dict[str, Start]] = {"tidelog": tidelog, "kafka": kafka}


def first_record(bootstrap: str, broker_count: int) -> None:
    """Make a topic, send one record to it and read it: what every test does before it can begin."""
    topic = f"topic-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=1, replication_factor=broker_count)
    admin.create_topics([new], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.produce(topic, b"first", partition=0)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("the first record was not acknowledged")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    if message is None or message.value() != b"first":
        raise RuntimeError("the first record was not read")


def measure(names: list[str], broker_count: int, rounds: int, directory: Path) -> dict[str, dict[str, list[float]]]:
    """Seconds by what was measured and whose brokers they were."""
    found: dict[str, dict[str, list[float]]] = {}
    brokers = f"{broker_count} broker{'s' if broker_count > 1 else ''}"
    for number in range(rounds + 1):  # the first one warms up: files that are read for the first time
        for name in names if number % 2 == 0 else reversed(names):
            with ExitStack() as running:
                began_s = time.perf_counter()
                bootstrap = running.enter_context(
                    STARTS[name](broker_count, directory / f"{name}-{broker_count}-{number}")
                )
                first_record(bootstrap, broker_count)
                ready_s = time.perf_counter()
                for _ in range(TESTS_PER_ROUND):
                    first_record(bootstrap, broker_count)
                tested_s = time.perf_counter()
                running.close()
                ended_s = time.perf_counter()
            readings = {
                f"{brokers}, start to first record": ready_s - began_s,
                f"{brokers}, a test that shares them": (tested_s - ready_s) / TESTS_PER_ROUND,
                f"{brokers}, end": ended_s - tested_s,
            }
            for what, value in readings.items() if number else ():
                found.setdefault(what, {}).setdefault(name, []).append(value * 1000)
    return found


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.testing", description=__doc__)
    parser.add_argument(
        "--kafka", action="store_true", help="measure Apache Kafka beside it (fetched with Maven, needs Java)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="counted runs of each, after one to warm up (default: 5)")
    options = parser.parse_args()
    names = ["tidelog", "kafka"] if options.kafka else ["tidelog"]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load average before: {os.getloadavg()[0]:.1f}; median ± half the range of {options.rounds}\n")
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        for broker_count in (1, 3):
            try:
                results = measure(names, broker_count, options.rounds, Path(directory))
            except ToolMissing as missing:
                print(missing, file=sys.stderr)
                return 1
            for what, by_name in results.items():
                summaries = [Summary(tuple(by_name[name])) for name in names]
                cells = [f"{name} {summary}" for name, summary in zip(names, summaries, strict=True)]
                compared = f"   ratio {ratio(summaries[0], summaries[1])}" if len(summaries) > 1 else ""
                print(f"{what:<38} ms   {'   '.join(cells)}{compared}   (lower is better)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
