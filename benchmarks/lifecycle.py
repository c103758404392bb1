"""What happens around serving: starting, holding memory, recovering. Each round starts brokers of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget to export it

from benchmarks.loads import MEGABYTE, TIMEOUT_S, Reading
from benchmarks.targets import Target
from tests.compatibility.apache_kafka import KafkaProcess, restarted
from tests.compatibility.processes import RunningProcess, TidelogProcess

TOPIC_COUNT: Final = 100
PARTITION_COUNT: Final = 5_000
RECOVERED_BYTES: Final = 1_000 * MEGABYTE
IDLE_S: Final = 10.0

Start = Callable[[Path], RunningProcess]


def start_tidelog(directory: Path) -> TidelogProcess:
    """A Tidelog broker on this directory, ready to serve."""
    return TidelogProcess(directory / "tidelog")


def start_kafka(directory: Path) -> RunningProcess:
    """An Apache Kafka broker on this directory, ready to serve; formatting happens before it counts."""
    home = directory / "kafka"
    return restarted(home) if home.exists() else KafkaProcess(home)


STARTS: Final[dict[str, Start]] = {"tidelog": start_tidelog, "kafka": start_kafka}


def first_record(start: Start, name: str, directory: Path) -> list[Reading]:
    """From the start of the process to the first acknowledged record."""
    with _fresh(start, name, directory) as target:
        _produce(target, "first", count=1, size=100)
        elapsed = time.monotonic() - target.process.started_s
    return [Reading(name="start to first record", unit="s", value=elapsed, is_better_high=False)]


def idle_memory(start: Start, name: str, directory: Path) -> list[Reading]:
    """Resident memory of an idle broker with 100 topics."""
    with _fresh(start, name, directory) as target:
        _create(target, TOPIC_COUNT, partitions=1)
        time.sleep(2)
        value = target.resident_megabytes()
    return [Reading(name="memory, 100 topics", unit="MB", value=value, is_better_high=False)]


def recovery(start: Start, name: str, directory: Path) -> list[Reading]:
    """From the start of the process to ready, after kill -9 with 1 GB unflushed in one partition."""
    count = RECOVERED_BYTES // 10_000
    with _fresh(start, name, directory) as target:
        _create(target, 1, partitions=1)
        _produce(target, "t0", count=count, size=10_000)
        target.process.kill()
        process = start(directory)
        elapsed = time.monotonic() - process.started_s
        with process:
            _check_end(_target(name, process), "t0", count)
    return [Reading(name="recovery of 1 GB", unit="s", value=elapsed, is_better_high=False)]


def many_partitions(start: Start, name: str, directory: Path) -> list[Reading]:
    """A broker with 5,000 partitions: its start, and the processor it uses while idle."""
    with _fresh(start, name, directory) as target:
        _create(target, 5, partitions=PARTITION_COUNT // 5)
        target.process.stop()
        process = start(directory)
        elapsed = time.monotonic() - process.started_s
        with process:
            again = _target(name, process)
            time.sleep(2)
            before = again.cpu_seconds()
            time.sleep(IDLE_S)
            idle = (again.cpu_seconds() - before) / IDLE_S * 100
    return [
        Reading(name="start, 5000 partitions", unit="s", value=elapsed, is_better_high=False),
        Reading(name="idle, 5000 partitions", unit="% core", value=idle, is_better_high=False),
    ]


LIFECYCLES: Final = {
    "first-record": first_record,
    "idle-memory": idle_memory,
    "recovery": recovery,
    "many-partitions": many_partitions,
}


@contextmanager
def _fresh(start: Start, name: str, directory: Path) -> Iterator[Target]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with start(directory) as process:
        yield _target(name, process)
    shutil.rmtree(directory, ignore_errors=True)


def _target(name: str, process: RunningProcess) -> Target:
    return Target(name, process.bootstrap, process)


def _create(target: Target, count: int, *, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    topics = [NewTopic(f"t{number}", num_partitions=partitions, replication_factor=1) for number in range(count)]
    for created in admin.create_topics(topics, request_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)


def _produce(target: Target, topic: str, *, count: int, size: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 200_000,
            "topic.metadata.refresh.fast.interval.ms": 10,
        }
    )
    value = bytes(size)
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{target.name} did not take {count} records")


def _check_end(target: Target, topic: str, expected: int) -> None:
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    consumer.close()
    if end != expected:
        raise ValueError(f"{target.name} recovered {end} of {expected} records")
