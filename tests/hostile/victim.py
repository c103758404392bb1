"""A broker that is attacked, and the questions a test asks it afterwards: does it serve, how large is it, what did it write down."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.broker.conversation import Conversation
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.records import RecordBatchBuilder
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

MEBIBYTE: Final = 1 << 20
NOW_MS: Final = 1_700_000_000_000


class Victim:
    """One broker process."""

    def __init__(self, data: Path, *properties: str) -> None:
        options = [word for each in properties for word in ("-X", each)]
        self.data = data
        self.process = TidelogProcess(data, *options)
        self.bootstrap = self.process.bootstrap

    def connect(self) -> Conversation:
        """A client that behaves until it is told not to."""
        return Conversation(self.bootstrap)

    def socket(self) -> socket.socket:
        """A bare socket."""
        host, _, port = self.bootstrap.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=20)

    @property
    def rss_bytes(self) -> int:
        """How much memory the broker has resident."""
        return int(self._status("VmRSS").split()[0]) << 10

    @property
    def rss_peak_bytes(self) -> int:
        """How much it ever had."""
        return int(self._status("VmHWM").split()[0]) << 10

    @property
    def descriptor_count(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def log(self) -> str:
        """Everything it wrote down about itself."""
        written = "".join(path.read_text(errors="replace") for path in sorted((self.data / "logs").glob("*.log*")))
        assert "broker ready" in written, "this is not its log"
        return written

    def serve_within_s(self) -> float:
        """Do what an honest client does, and say how long it took."""
        before = time.monotonic()
        with self.connect() as client:
            assert client.ask(MetadataRequest(topics=()), 9).brokers
            assert produce(client, "honest", one_batch()).error_code is ErrorCode.NONE
        return time.monotonic() - before

    @contextmanager
    def answering_others(self, *, within_s: float) -> Iterator[None]:
        """Meanwhile another client asks again and again, and never waits while the broker works longer than this on something else.

        What counts is the broker's processor time: the rest of a wait is due to whatever else this machine does.
        """
        slowest = 0.0
        asked = 0
        is_over = threading.Event()

        def ask() -> None:
            nonlocal slowest, asked
            with self.connect() as other:
                while not is_over.is_set():
                    before_s = self._worked_s
                    other.ask(MetadataRequest(topics=()), 9)
                    slowest = max(slowest, self._worked_s - before_s)
                    asked += 1

        asker = threading.Thread(target=ask)
        asker.start()
        try:
            yield
        finally:
            is_over.set()
            asker.join()
        assert asked > 0
        assert slowest < within_s, f"the slowest of {asked} answers took {slowest:.3f} s of work"

    @property
    def _worked_s(self) -> float:
        user, system = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def create(self, topic: str, partition_count: int = 1, **configs: str) -> None:
        """Make a topic."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partition_count,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
            ),
        )
        with self.connect() as client:
            (created,) = client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=60_000), 7).topics
        assert created.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), created

    def until(self, holds: Callable[[], bool], *, within_s: float = 20) -> None:
        """Wait for a fact."""
        deadline = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < deadline, "it did not become true in time"

    def _status(self, name: str) -> str:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def one_batch(value: bytes = b"v") -> bytearray:
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=NOW_MS, key=b"k", value=value)
    return builder.build()


def produce(client: Conversation, topic: str, batch: bytes | bytearray) -> PartitionProduceResponse:
    """What became of one batch."""
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),)),),
    )
    (answered,) = client.ask(request, 9).responses
    return answered.partition_responses[0]
