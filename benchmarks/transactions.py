"""Transactions: `python -m benchmarks.transactions [LOAD...] [--kafka] [--brokers 1|3]`, the same client (librdkafka) for both.

small: one producer, a record in each of so many partitions per transaction, one transaction after the other; transactions per second, and how
long a commit takes. batches: records of 1 kB by a transactional producer, which commits every so often, beside those of a plain one.
reading: what was written so is read by somebody who reads what is committed, and by somebody who reads everything.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget to export it

from benchmarks.loads import Reading
from benchmarks.statistics import Summary, percentile, ratio
from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing
from tests.compatibility.apache_kafka_cluster import KafkaCluster
from tests.compatibility.processes import TidelogCluster, TidelogProcess

MEGABYTE: Final = 1_000_000
RECORD_BYTES: Final = 1_000
TIMEOUT_S: Final = 60
PARTITION_COUNTS: Final = (1, 10, 100)
RECORDS_PER_TRANSACTION: Final = 1_000
ABORTED_ONE_IN: Final = 10
CONSUMED_AT_ONCE: Final = 100
_numbers: Final = count()


class Running(Protocol):
    """A broker, or a cluster of them."""

    bootstrap: str


class Target:
    """What is measured, and the processor time it has used."""

    def __init__(self, name: str, running: Running, pids: list[int], replication_factor: int) -> None:
        self.name, self.bootstrap, self.replication_factor = name, running.bootstrap, replication_factor
        self._pids = pids

    def cpu_seconds(self) -> float:
        """Of all its processes since they started."""
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in self._pids)


Load = Callable[[Target, str, int], list[Reading]]


def small(target: Target, topic: str, size: int) -> list[Reading]:
    """One record in each of 1, 10 and 100 partitions per transaction, one transaction after the other."""
    readings = []
    for partition_count in PARTITION_COUNTS:
        transactions = max(20, size * 10 // partition_count)
        producer = _producer(target, topic)
        latencies = [_transact(producer, topic, partition_count) for _ in range(20)]  # everybody knows everybody now
        latencies.clear()
        cpu_s, begun_s = target.cpu_seconds(), time.perf_counter()
        latencies = sorted(_transact(producer, topic, partition_count) for _ in range(transactions))
        took_s, used_s = time.perf_counter() - begun_s, target.cpu_seconds() - cpu_s
        of = f"{partition_count} partition{'s' * (partition_count > 1)}"
        readings += [
            Reading(name=f"transactions, {of}", unit="1/s", value=transactions / took_s),
            Reading(name=f"commit p50, {of}", unit="ms", value=1e3 * percentile(latencies, 0.5), is_better_high=False),
            Reading(name=f"commit p99, {of}", unit="ms", value=1e3 * percentile(latencies, 0.99), is_better_high=False),
            Reading(name=f"processor each, {of}", unit="ms", value=1e3 * used_s / transactions, is_better_high=False),
        ]
    return readings


def batches(target: Target, topic: str, size: int) -> list[Reading]:
    """Records of 1 kB, a thousand per transaction, beside a plain producer."""
    records = size * MEGABYTE // RECORD_BYTES
    plain, producer = _plain_producer(target), _producer(target, f"{topic}-many")
    _produce(plain, topic, 1)  # it is connected now
    _produce_in_transactions(producer, topic, RECORDS_PER_TRANSACTION)
    plain_s = _timed(lambda: _produce(plain, topic, records))
    transactional_s = _timed(lambda: _produce_in_transactions(producer, topic, records))
    return [
        Reading(name="plain", unit="MB/s", value=size / plain_s),
        Reading(name="transactional", unit="MB/s", value=size / transactional_s),
        Reading(name="transactional / plain", unit="", value=plain_s / transactional_s),
    ]


def reading(target: Target, topic: str, size: int) -> list[Reading]:
    """What was written in transactions of a thousand records, one in ten of them aborted, is read by both kinds of readers."""
    records = size * MEGABYTE // RECORD_BYTES
    producer = _producer(target, f"{topic}-read")
    committed = _produce_in_transactions(producer, topic, records, aborted_one_in=ABORTED_ONE_IN)
    everything_s = _timed(lambda: _consume(target, topic, records, "read_uncommitted"))
    committed_s = _timed(lambda: _consume(target, topic, committed, "read_committed"))
    rates = (size / everything_s, size * committed / records / committed_s)
    return [
        Reading(name="read_uncommitted", unit="MB/s", value=rates[0]),
        Reading(name="read_committed", unit="MB/s", value=rates[1]),
        Reading(name="committed / uncommitted", unit="", value=rates[1] / rates[0]),
    ]


LOADS: Final[dict[str, Load]] = {"small": small, "batches": batches, "reading": reading}


def _timed(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def _producer(target: Target, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": target.bootstrap, "linger.ms": 0, "queue.buffering.max.kbytes": 200_000}
    producer = Producer({**settings, "transactional.id": f"{transactional_id}-{next(_numbers)}"})
    producer.init_transactions(TIMEOUT_S)
    return producer


def _plain_producer(target: Target) -> Producer:
    settings = {"bootstrap.servers": target.bootstrap, "queue.buffering.max.kbytes": 200_000, "linger.ms": 5}
    return Producer({**settings, "enable.idempotence": True, "acks": "all"})


def _transact(producer: Producer, topic: str, partition_count: int) -> float:
    """One transaction; how many seconds its commit took, of which sending what is left is a part."""
    producer.begin_transaction()
    for partition in range(partition_count):
        producer.produce(topic, bytes(100), partition=partition)
    producer.flush(TIMEOUT_S)
    return _timed(lambda: producer.commit_transaction(TIMEOUT_S))


def _produce(producer: Producer, topic: str, records: int) -> None:
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    value = bytes(RECORD_BYTES)
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(TIMEOUT_S) or failures:
        raise RuntimeError(f"not everything was acknowledged: {failures[:3]}")


def _produce_in_transactions(producer: Producer, topic: str, records: int, *, aborted_one_in: int = 0) -> int:
    """How many of them were committed."""
    committed = 0
    for number in range(records // RECORDS_PER_TRANSACTION):
        producer.begin_transaction()
        _produce(producer, topic, RECORDS_PER_TRANSACTION)
        if aborted_one_in and number % aborted_one_in == 1:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            committed += RECORDS_PER_TRANSACTION
    return committed


def _consume(target: Target, topic: str, wanted: int, isolation_level: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "fetch.message.max.bytes": 4_000_000,
            "queued.max.messages.kbytes": 100_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline_s = time.monotonic() + TIMEOUT_S
    seen = 0
    while seen < wanted:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{target.name}: {seen} of {wanted} records came")
        seen += sum(message.error() is None for message in consumer.consume(CONSUMED_AT_ONCE, timeout=1))
    consumer.close()


def _create(target: Target, topic: str, partition_count: int) -> None:
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    wanted = NewTopic(topic, num_partitions=partition_count, replication_factor=target.replication_factor)
    for created in admin.create_topics([wanted], request_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)


def _delete(target: Target, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(TIMEOUT_S)


def _targets(names: list[str], brokers: int, directory: Path, running: ExitStack) -> list[Target]:
    targets = []
    for name in names:
        if brokers == 1:
            process = KafkaProcess(directory / name) if name == "kafka" else TidelogProcess(directory / name)
            running.push(process.__exit__)
            targets.append(Target(name, process, [process.pid], 1))
        else:
            cluster = KafkaCluster(directory / name) if name == "kafka" else TidelogCluster(directory / name)
            running.push(cluster.__exit__)
            targets.append(Target(name, cluster, list(cluster.pids.values()), 3))
    return targets


def _compare(load: str, targets: list[Target], options: argparse.Namespace) -> None:
    results: dict[str, dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    for number in range(options.warmup + options.rounds):
        for target in targets if number % 2 == 0 else reversed(targets):
            topic = f"bench-{load}-{number}"
            _create(target, topic, max(PARTITION_COUNTS) if load == "small" else 1)
            for one in LOADS[load](target, topic, options.size):
                if number >= options.warmup:
                    results[one.name][target.name].append(one)
            _delete(target, topic)
    print(f"{load}: {LOADS[load].__doc__}")
    for title, by_target in results.items():
        summaries = [Summary(tuple(one.value for one in by_target[target.name])) for target in targets]
        cells = [f"{target.name} {summary}" for target, summary in zip(targets, summaries, strict=True)]
        compared = f"   ratio {ratio(summaries[0], summaries[1])}" if len(summaries) > 1 else ""
        one = by_target[targets[0].name][0]
        better = "higher" if one.is_better_high else "lower"
        print(f"{title:<32} {one.unit:<6} {'   '.join(cells)}{compared}   ({better} is better)", flush=True)


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__)
    parser.add_argument("loads", nargs="*", choices=[[], *LOADS], metavar="LOAD", help=f"which of {', '.join(LOADS)}")
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka beside it, taking turns")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=3, help="rounds before those, for compilers and caches")
    parser.add_argument("--size", type=int, default=100, help="megabytes per round; ten small transactions for each")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"{options.brokers} broker(s), load average before: {os.getloadavg()[0]:.1f}", flush=True)
    names = ["tidelog", "kafka"] if options.kafka else ["tidelog"]
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as temporary, ExitStack() as running:
        try:
            targets = _targets(names, options.brokers, Path(temporary), running)
        except ToolMissing as missing:
            print(missing, file=sys.stderr)
            return 1
        for load in options.loads or LOADS:
            _compare(load, targets, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
