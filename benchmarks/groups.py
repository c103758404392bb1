"""Consumer groups: `python -m benchmarks.groups loading|heartbeats [--kafka]`.

loading: a broker whose partition of `__consumer_offsets` holds a million commits is started again. Measured: how long it says loading took,
from the start of the process to the first committed offset, and the longest that anybody else had to wait meanwhile. Then the cleaner runs.
heartbeats: a thousand groups of five members on three brokers; measured is the processor time of the brokers.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget to export it

from benchmarks.heartbeats import heartbeats
from benchmarks.loads import Reading
from benchmarks.statistics import Summary, ratio
from benchmarks.targets import Target
from benchmarks.wire_client import TIMEOUT_S, Connection
from tests.compatibility.apache_kafka import POM, KafkaProcess, ToolMissing, broker_command
from tests.compatibility.processes import RunningProcess, TidelogProcess
from tidelog.model import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest

TOPIC: Final = "read"
PARTITION_COUNT: Final = 100
GROUP_COUNT: Final = 100
UNDER_WAY: Final = 10
COMMIT_VERSION, FETCH_VERSION, FIND_VERSION = 8, 7, 3
CLEANED_SETTINGS: Final = {
    "offsets.topic.segment.bytes": "10485760",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.1",
}
CLEANING_S: Final = 120.0
_LOGGING: Final = "logger.coordinator.name = org.apache.kafka.coordinator\nlogger.coordinator.level = INFO\n"
_KAFKA_LOADED: Final = re.compile(r"Finished loading of metadata from __consumer_offsets-0 .*?in (\d+)ms")
_TIDELOG_LOADED: Final = re.compile(r"coordinator loaded.*?took_ms=(\d+)")


class Broker(NamedTuple):
    """How one kind of broker is started, asked how long loading took, and where it keeps the partition."""

    name: str
    directory: Path
    settings: dict[str, str]

    def start(self) -> RunningProcess:
        """On the data of the last start, if there was one."""
        settings = {"offsets.topic.num.partitions": "1", **self.settings}
        if self.name == "tidelog":
            options = [f"-X{name}={value}" for name, value in settings.items()]
            return TidelogProcess(self.directory, *options)
        if not self.directory.exists():
            return KafkaProcess(self.directory, properties=settings)
        config = self.directory / "server.properties"
        logging = self.directory / "log4j2.properties"
        logging.write_text(POM.with_name("log4j2.properties").read_text() + _LOGGING)
        process = RunningProcess(broker_command(config, logging))
        process.bootstrap = re.findall(r"PLAINTEXT://([^,\n]*)", config.read_text())[0]
        process.wait_for(r"Kafka Server started")
        return process

    def loading_ms(self, process: RunningProcess) -> float:
        """As the broker itself says, of its last start."""
        if self.name == "tidelog":
            said = (self.directory / "logs" / "broker-1.log").read_text()
            return float(_TIDELOG_LOADED.findall(said)[-1])
        return float(_KAFKA_LOADED.findall(process.output)[-1])

    def partition_bytes(self) -> int:
        """Of the partition's records on the disk."""
        return sum(file.stat().st_size for file in self.directory.glob("**/__consumer_offsets-0/*.log"))


def loading(name: str, directory: Path, commit_count: int) -> list[Reading]:
    """Loading a partition of committed offsets."""
    shutil.rmtree(directory, ignore_errors=True)
    broker = Broker(name, directory / name, {})
    directory.mkdir(parents=True)
    with broker.start() as process:
        _commit(process.bootstrap, commit_count)
        written = broker.partition_bytes()
        process.stop()
    with broker.start() as process, _Waiting(process.bootstrap) as waiting:
        _first_offset(process.bootstrap)
        served_s = time.monotonic() - process.started_s
        used_s = Target(name, process.bootstrap, process).cpu_seconds()
        waiting.stop()
        took_ms = broker.loading_ms(process)
    shutil.rmtree(directory, ignore_errors=True)
    return [
        Reading(name="loading, as logged", unit="ms", value=took_ms, is_better_high=False),
        Reading(name="start to first offset", unit="s", value=served_s, is_better_high=False),
        Reading(name="processor until then", unit="s", value=used_s, is_better_high=False),
        Reading(name="longest wait meanwhile", unit="ms", value=waiting.longest_ms, is_better_high=False),
        Reading(name="partition", unit="MB", value=written / 1e6, is_better_high=False),
    ]


def compaction(name: str, directory: Path, commit_count: int) -> list[Reading]:
    """What the cleaner leaves of a partition of committed offsets in segments of 10 MiB, of which the newest is not cleaned."""
    shutil.rmtree(directory, ignore_errors=True)
    broker = Broker(name, directory / name, CLEANED_SETTINGS)
    directory.mkdir(parents=True)
    with broker.start() as process:
        _commit(process.bootstrap, commit_count)
        sizes = [broker.partition_bytes()]
        end_s = time.monotonic() + CLEANING_S
        while time.monotonic() < end_s and (len(sizes) < 15 or sizes[-15] != sizes[-1]):
            time.sleep(1)
            sizes.append(broker.partition_bytes())
    shutil.rmtree(directory, ignore_errors=True)
    return [Reading(name="after cleaning", unit="MB", value=sizes[-1] / 1e6, is_better_high=False)]


LOADS: Final = {"loading": loading, "compaction": compaction}


class _Waiting:
    """Somebody who asks for something else all the time, and how long the slowest answer took."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.longest_ms = 0.0

    def __enter__(self) -> _Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more questions."""
        self._is_over.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        with Connection(self._bootstrap) as connection:
            while not self._is_over.wait(0.002):
                begun_s = time.monotonic()
                connection.ask(ApiVersionsRequest(), 0)
                self.longest_ms = max(self.longest_ms, (time.monotonic() - begun_s) * 1_000)


def _commit(bootstrap: str, commit_count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITION_COUNT, 1)]).values():
        created.result(TIMEOUT_S)
    with Connection(bootstrap) as connection:
        while connection.ask(FindCoordinatorRequest(key="group-0", key_type=0), FIND_VERSION).error_code:
            time.sleep(0.1)
        while any(_refusals(connection, [_request("group-0", 0)])):
            time.sleep(0.1)
        requests = commit_count // PARTITION_COUNT
        for first in range(0, requests, UNDER_WAY):
            numbers = range(first, min(first + UNDER_WAY, requests))
            refusals = _refusals(connection, [_request(f"group-{it % GROUP_COUNT}", it) for it in numbers])
            if any(refusals):
                raise ValueError(f"offsets were refused: {sorted(set(refusals))}")


def _request(group_id: str, offset: int) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(PARTITION_COUNT)
    )
    topics = (OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),)
    return OffsetCommitRequest(group_id=group_id, member_id="", topics=topics)


def _refusals(connection: Connection, requests: list[OffsetCommitRequest]) -> list[ErrorCode]:
    answers = connection.ask_all(requests, COMMIT_VERSION)
    return [partition.error_code for answer in answers for topic in answer.topics for partition in topic.partitions]


def _first_offset(bootstrap: str) -> None:
    with Connection(bootstrap) as connection:
        while True:
            answer = connection.ask(OffsetFetchRequest(group_id="group-0", topics=None), FETCH_VERSION)
            if not answer.error_code:
                break
            time.sleep(0.005)
    found = sum(len(topic.partitions) for topic in answer.topics)
    if found != PARTITION_COUNT:
        raise ValueError(f"{found} of {PARTITION_COUNT} offsets came back")


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups", description=__doc__)
    parser.add_argument("load", choices=[*LOADS, "heartbeats"])
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka beside it, taking turns")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=30, help="how long heartbeats are measured")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"load average before: {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as temporary:
        if options.load == "heartbeats":
            for reading in heartbeats(Path(temporary), options.groups, options.members, options.seconds):
                print(f"{reading.name:<26} {reading.unit:<9} {reading.value:,.2f}")
            return 0
        try:
            _compare(options, Path(temporary) / "brokers")
        except ToolMissing as missing:
            print(missing, file=sys.stderr)
            return 1
    return 0


def _compare(options: argparse.Namespace, directory: Path) -> None:
    names = ["tidelog", "kafka"] if options.kafka else ["tidelog"]
    results: dict[str, dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    for number in range(options.rounds):
        for name in names if number % 2 == 0 else reversed(names):
            for reading in LOADS[options.load](name, directory, options.commits):
                results[reading.name][name].append(reading)
    for title, by_target in results.items():
        summaries = [Summary(tuple(reading.value for reading in by_target[name])) for name in names]
        cells = [f"{name} {summary}" for name, summary in zip(names, summaries, strict=True)]
        compared = f"   ratio {ratio(summaries[0], summaries[1])}" if len(summaries) > 1 else ""
        print(f"{title:<26} {by_target[names[0]][0].unit:<9} {'   '.join(cells)}{compared}   (lower is better)")


if __name__ == "__main__":
    sys.exit(main())
