"""Three brokers beside three brokers of Apache Kafka: `python -m benchmarks.cluster`.

Topics have three replicas and min.insync.replicas=2, producers wait for all of them. Both clusters run all the time and take turns; the one
that is not measured stands idle.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget to export it

from benchmarks.loads import MEGABYTE, TIMEOUT_S, Reading
from benchmarks.statistics import Summary, percentile, ratio
from tests.compatibility.apache_kafka import ToolMissing
from tests.compatibility.apache_kafka_cluster import KafkaCluster
from tests.compatibility.processes import TidelogCluster, TidelogUp

RECORDS_PER_S: Final = 2_000
LATENCY_S: Final = 10
FAILOVER_TIMEOUT_S: Final = 120
TOPIC_CONFIG: Final = {"min.insync.replicas": "2"}


class Running(Protocol):
    """Brokers, each a process of its own."""

    bootstrap: str

    @property
    def pids(self) -> dict[int, int]:
        """The process of each broker."""
        ...


class Cluster(Running, Protocol):
    """Three brokers that can be killed and started again."""

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""
        ...

    def restart(self, broker_id: int) -> None:
        """Start it again and wait until it serves."""
        ...


Start = Callable[[Path], "KafkaCluster | TidelogCluster"]
STARTS: Final[dict[str, Start]] = {
    "tidelog": lambda directory: TidelogCluster(directory / "tidelog", broker_count=3),
    "kafka": lambda directory: KafkaCluster(directory / "kafka", brokers=3),
}
StartUp = Callable[[Path], "KafkaCluster | TidelogUp"]
STARTS_UP: Final[dict[str, StartUp]] = {
    "tidelog": lambda directory: TidelogUp(directory / "tidelog"),
    "kafka": lambda directory: KafkaCluster(directory / "kafka", brokers=3),
}


def produce_large(cluster: Cluster, topic: str, scale: int) -> list[Reading]:
    """Records of 1 kB in batches of up to 1 MB, acks=all."""
    return _throughput(cluster, topic, scale, batch_bytes=1_000_000)


def produce_small(cluster: Cluster, topic: str, scale: int) -> list[Reading]:
    """Records of 1 kB in batches of up to 16 kB, acks=all."""
    return _throughput(cluster, topic, scale // 4, batch_bytes=16_384)


def _throughput(cluster: Cluster, topic: str, scale: int, *, batch_bytes: int) -> list[Reading]:
    failures: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "message.max.bytes": 1_000_000,
            "queue.buffering.max.kbytes": 200_000,
            "on_delivery": lambda error, _message: failures.append(error) if error is not None else None,
        }
    )
    value, count = bytes(1_000), scale // 1_000
    cpu, started = _cpu_seconds(cluster), time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(TIMEOUT_S) or failures:
        raise RuntimeError(f"not everything was acknowledged: {failures[:3]}")
    elapsed, spent = time.perf_counter() - started, _cpu_seconds(cluster) - cpu
    return [
        Reading(name="produce, acks=all", unit="MB/s", value=scale / MEGABYTE / elapsed),
        Reading(name="produce per cpu-second of all brokers", unit="MB/cpu-s", value=scale / MEGABYTE / spent),
    ]


def end_to_end(cluster: Cluster, topic: str, scale: int) -> list[Reading]:
    """From `produce` to a consumer's hands, 2,000 records of 1 kB a second, acks=all, the clients' own defaults."""
    latencies: list[float] = []
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = RECORDS_PER_S * LATENCY_S

    def consume() -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while len(latencies) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                sent = float((message.value() or b"0").rstrip(b"\0") or b"0")
                latencies.append((time.monotonic() - sent) * 1000)

    reading = threading.Thread(target=consume)
    reading.start()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    begun = time.monotonic()
    for number in range(count):
        while (ahead := begun + number / RECORDS_PER_S - time.monotonic()) > 0:
            producer.poll(min(ahead, 0.001))
        producer.produce(topic, (b"%f" % time.monotonic()).ljust(1_000, b"\0"), partition=0)
    producer.flush(TIMEOUT_S)
    reading.join()
    consumer.close()
    if len(latencies) < count:
        raise RuntimeError(f"only {len(latencies)} of {count} records came")
    settled = sorted(latencies[RECORDS_PER_S:])  # The first second is for connections and caches.
    return [
        Reading(name="end to end p50", unit="ms", value=percentile(settled, 0.50), is_better_high=False),
        Reading(name="end to end p99", unit="ms", value=percentile(settled, 0.99), is_better_high=False),
    ]


def failover(cluster: Cluster, topic: str, scale: int) -> list[Reading]:
    """From SIGKILL of a leader to the next acknowledged record of a producer that never stops."""
    acknowledged: list[float] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(time.monotonic())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "on_delivery": on_delivery})
    leader = _leader(cluster, topic)
    _send_until(producer, topic, lambda: len(acknowledged) > 100)
    cluster.kill(leader)
    killed = time.monotonic()
    # What was on its way when the leader died may still be acknowledged by its successor only; count from the first after that.
    _send_until(producer, topic, lambda: bool(acknowledged) and acknowledged[-1] > killed + 0.005)
    gap = next(moment for moment in acknowledged if moment > killed + 0.005) - killed
    producer.flush(TIMEOUT_S)
    cluster.restart(leader)
    _until_whole(cluster, topic)
    return [Reading(name="kill of a leader to next ack", unit="s", value=gap, is_better_high=False)]


LOADS: Final = {
    "large-batches": produce_large,
    "small-batches": produce_small,
    "end-to-end": end_to_end,
    "failover": failover,
}


def start_and_memory(name: str, directory: Path) -> list[Reading]:
    """From the start of the processes to ready, and the memory of all brokers together ten seconds later."""
    with STARTS_UP[name](directory) as cluster:
        ready = time.monotonic() - cluster.started_s
        _create(cluster, "first", partitions=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        producer.produce("first", b"x")
        producer.flush(TIMEOUT_S)
        first = time.monotonic() - cluster.started_s
        time.sleep(10)
        return [
            Reading(name="start of the cluster", unit="s", value=ready, is_better_high=False),
            Reading(name="start to first record, RF 3", unit="s", value=first, is_better_high=False),
            Reading(name="memory of three brokers", unit="MB", value=_memory(cluster), is_better_high=False),
        ]


def many_failovers(name: str, directory: Path) -> list[Reading]:
    """SIGKILL of a broker that leads a third of 1,000 and of 5,000 partitions (RF 3): until none is without a leader."""
    readings = []
    for count in (1_000, 5_000):
        with STARTS[name](directory / str(count)) as cluster:
            for number in range(5):
                _create(cluster, f"many-{number}", partitions=count // 5)
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            cluster.kill(2)
            killed = time.monotonic()
            while time.monotonic() < killed + FAILOVER_TIMEOUT_S:
                topics = admin.list_topics(timeout=TIMEOUT_S).topics.values()
                partitions = [one for topic in topics for one in topic.partitions.values()]
                if all(one.leader not in (-1, 2) for one in partitions):
                    break
            elapsed = time.monotonic() - killed
            readings.append(
                Reading(name=f"failover of {count} partitions", unit="s", value=elapsed, is_better_high=False)
            )
            readings.append(
                Reading(name=f"memory, {count} partitions", unit="MB", value=_memory(cluster), is_better_high=False)
            )
    return readings


OWN_STARTS: Final = {"start-and-memory": start_and_memory, "many-failovers": many_failovers}


def main() -> int:
    """Measure and print; returns the exit code."""
    options = _options()
    names = list(STARTS) if options.kafka else ["tidelog"]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    print(f"{options.rounds} rounds after {options.warmup} to warm up; median ± half the range\n", flush=True)
    chosen = options.loads or [*LOADS, *OWN_STARTS]
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.directory) as directory:
        try:
            _run_loads(names, [load for load in chosen if load in LOADS], Path(directory), options)
            _run_starts(names, [load for load in chosen if load in OWN_STARTS], Path(directory), options)
        except ToolMissing as missing:
            print(missing, file=sys.stderr)
            return 1
    return 0


def _run_loads(names: list[str], loads: list[str], directory: Path, options: argparse.Namespace) -> None:
    if not loads:
        return
    with ExitStack() as running:
        clusters = {name: STARTS[name](directory) for name in names}
        for cluster in clusters.values():
            running.push(cluster.__exit__)
        for load in loads:
            results: dict[str, dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))
            for number in range(options.warmup + options.rounds):
                for name in names if number % 2 == 0 else reversed(names):
                    _settle(clusters)
                    topic = f"bench-{load}-{number}"
                    _create(clusters[name], topic, partitions=1)
                    for reading in LOADS[load](clusters[name], topic, options.megabytes * MEGABYTE):
                        if number >= options.warmup:
                            results[reading.name][name].append(reading)
                    _delete(clusters[name], topic)
            _report(names, load, LOADS[load].__doc__ or "", results)


def _run_starts(names: list[str], loads: list[str], directory: Path, options: argparse.Namespace) -> None:
    for load in loads:
        results: dict[str, dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))
        for number in range(options.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                home = directory / f"{load}-{name}-{number}"
                for reading in OWN_STARTS[load](name, home):
                    results[reading.name][name].append(reading)
        _report(names, load, OWN_STARTS[load].__doc__ or "", results)


def _report(names: list[str], load: str, about: str, results: dict[str, dict[str, list[Reading]]]) -> None:
    print(f"{load}: {about}")
    for reading_name, by_name in results.items():
        summaries = {name: Summary(tuple(reading.value for reading in by_name[name])) for name in names}
        unit = by_name[names[0]][0].unit
        shown = "  ".join(f"{name} {summary} {unit}" for name, summary in summaries.items())
        compared = f"  ratio {ratio(summaries['tidelog'], summaries['kafka'])}" if "kafka" in summaries else ""
        print(f"  {reading_name:<40} {shown}{compared}")
    print(flush=True)


def _settle(clusters: dict[str, KafkaCluster | TidelogCluster]) -> None:
    """Wait until every broker of every cluster is a member and in sync, so that no round begins in the aftermath of another."""
    for cluster in clusters.values():
        deadline = time.monotonic() + TIMEOUT_S
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        while time.monotonic() < deadline and not _are_all_members(admin, len(cluster.pids)):
            time.sleep(0.2)


def _are_all_members(admin: AdminClient, count: int) -> bool:
    try:
        metadata = admin.list_topics(timeout=TIMEOUT_S)
    except KafkaException:
        return False
    partitions = [one for topic in metadata.topics.values() for one in topic.partitions.values()]
    return len(metadata.brokers) == count and all(one.leader >= 0 and len(one.isrs) == count for one in partitions)


def _cpu_seconds(cluster: Running) -> float:
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in cluster.pids.values())


def _memory(cluster: Running) -> float:
    """Resident memory of the brokers that run, each page they share counted once per broker as `ps` does."""
    pages = 0
    for pid in cluster.pids.values():
        statm = Path(f"/proc/{pid}/statm")
        pages += int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _create(cluster: Running, topic: str, *, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=3, config=TOPIC_CONFIG)
    for created in admin.create_topics([wanted], request_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)
    _until_whole(cluster, topic)


def _delete(cluster: Running, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(TIMEOUT_S)


def _leader(cluster: Running, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return int(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[0].leader)


def _until_whole(cluster: Running, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        partitions = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        if partitions and all(one.leader >= 0 and len(one.isrs) == 3 for one in partitions.values()):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{topic} does not become whole")


def _send_until(producer: Producer, topic: str, is_enough: Callable[[], bool]) -> None:
    deadline = time.monotonic() + FAILOVER_TIMEOUT_S
    while not is_enough():
        if time.monotonic() > deadline:
            raise RuntimeError("no record was acknowledged in time")
        producer.produce(topic, bytes(100), partition=0)
        producer.poll(0.002)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("loads", nargs="*", choices=[*LOADS, *OWN_STARTS, []], help="which to run (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds (default: 3)")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before that (default: 1)")
    parser.add_argument(
        "--megabytes", type=int, default=200, help="written per round of the large batches (default: 200)"
    )
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="measure Tidelog alone")
    parser.add_argument("--directory", help="where the data lies (default: the temporary directory)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
