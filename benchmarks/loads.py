"""What is done to a broker, and what is counted while it is done. Each load uses a topic of its own and removes it afterwards."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget to export it

from benchmarks.statistics import percentile
from benchmarks.targets import Target
from tidelog.model import ErrorCode
from tidelog.records.builder import RecordBatchBuilder
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decode_response
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader, decode_response_header
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

MEGABYTE: Final = 1_000_000
TIMEOUT_S: Final = 60
CONSUMED_AT_ONCE: Final = 100
_PRODUCE_VERSION: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One number of one run; `is_better_high` tells which way is good."""

    name: str
    unit: str
    value: float
    is_better_high: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is done per run."""

    throughput_bytes: int = 400 * MEGABYTE
    record_bytes: int = 1_000
    batch_bytes: int = 1_000_000
    request_count: int = 5_000


Load = Callable[[Target, str, Scale], list[Reading]]


def large_batches(target: Target, topic: str, scale: Scale) -> list[Reading]:
    """Records of 1 kB in batches of up to 1 MB: the friendliest load, in which a broker only moves bytes."""
    return _throughput(target, topic, scale)


def small_batches(target: Target, topic: str, scale: Scale) -> list[Reading]:
    """Records of 1 kB in batches of up to 16 kB, Kafka's default: what a broker does per batch and per request counts."""
    small = replace(scale, throughput_bytes=scale.throughput_bytes // 4, batch_bytes=16_384)
    return _throughput(target, topic, small)


def _throughput(target: Target, topic: str, scale: Scale) -> list[Reading]:
    """librdkafka produces with acks=all, then another one reads everything back."""
    count = scale.throughput_bytes // scale.record_bytes
    produced = _timed(target, lambda: _produce_all(target, topic, scale, count))
    consumed = _timed(target, lambda: _consume_all(target, topic, count))
    megabytes = count * scale.record_bytes / MEGABYTE
    return [
        Reading(name="produce", unit="MB/s", value=megabytes / produced.wall_s),
        Reading(name="produce per broker core", unit="MB/cpu-s", value=megabytes / produced.cpu_s),
        Reading(name="consume", unit="MB/s", value=megabytes / consumed.wall_s),
        Reading(name="consume per broker core", unit="MB/cpu-s", value=megabytes / consumed.cpu_s),
        Reading(name="memory", unit="MB", value=target.resident_megabytes(), is_better_high=False),
    ]


def synchronous_produce(target: Target, topic: str, scale: Scale) -> list[Reading]:
    """One connection, one record of 100 bytes at a time, acks=all; a bare socket, so that the broker is what is measured."""
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=int(time.time() * 1000), key=None, value=bytes(100))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=builder.build()),)),
        ),
    )
    frame = b"".join(encode_request_frame(RequestHeader(ApiKey.PRODUCE, _PRODUCE_VERSION, 1, "bench"), request))
    host, _, port = target.bootstrap.rpartition(":")
    latencies = []
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _until_led(target, connection, frame)
        for _ in range(scale.request_count):
            started = time.perf_counter()
            _roundtrip(connection, frame)
            latencies.append((time.perf_counter() - started) * 1e6)
    latencies.sort()
    return [
        Reading(name="sync produce p50", unit="us", value=percentile(latencies, 0.50), is_better_high=False),
        Reading(name="sync produce p99", unit="us", value=percentile(latencies, 0.99), is_better_high=False),
    ]


LOADS: Final[dict[str, Load]] = {
    "large-batches": large_batches,
    "small-batches": small_batches,
    "latency": synchronous_produce,
}


@contextmanager
def own_topic(target: Target, name: str) -> Iterator[str]:
    """A topic with one partition that is gone afterwards, so that a long session does not fill the disk."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for created in admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)]).values():
        created.result(TIMEOUT_S)
    try:
        yield name
    finally:
        for deleted in admin.delete_topics([name]).values():
            deleted.result(TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class _Spent:
    wall_s: float
    cpu_s: float


def _timed(target: Target, work: Callable[[], None]) -> _Spent:
    cpu, wall = target.cpu_seconds(), time.perf_counter()
    work()
    return _Spent(time.perf_counter() - wall, target.cpu_seconds() - cpu)


def _produce_all(target: Target, topic: str, scale: Scale, count: int) -> None:
    failures: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": scale.batch_bytes,
            "message.max.bytes": 1_000_000,
            "queue.buffering.max.kbytes": 200_000,
            "on_delivery": lambda error, _message: failures.append(error) if error is not None else None,
        }
    )
    value = bytes(scale.record_bytes)
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(TIMEOUT_S) or failures:
        raise RuntimeError(f"{target.name}: not everything was acknowledged: {failures[:3]}")


def _consume_all(target: Target, topic: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4_000_000,
            "queued.max.messages.kbytes": 100_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + TIMEOUT_S
    seen = 0
    try:
        while seen < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{target.name}: {seen} of {count} records came within {TIMEOUT_S} s")
            # A small number: `consume` waits until it has them all or time runs out, also when the client's queue cannot hold as many.
            for message in consumer.consume(CONSUMED_AT_ONCE, timeout=1):
                if message.error() is not None:
                    raise RuntimeError(f"{target.name}: {message.error()}")
                seen += 1
    finally:
        consumer.close()


def _roundtrip(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise RuntimeError("the broker closed the connection")
        data += chunk
    return data


def _until_led(target: Target, connection: socket.socket, frame: bytes) -> None:
    """Produce until it is accepted: a broker may say that a topic is made before it leads it."""
    deadline = time.monotonic() + TIMEOUT_S
    while error := _error_in(_roundtrip(connection, frame)):
        if not error.is_retriable or time.monotonic() > deadline:
            raise RuntimeError(f"{target.name}: produce was refused: {error.name}")
        print(f"{target.name} answered {error.name} although the topic was made", file=sys.stderr)
        time.sleep(0.05)


def _error_in(frame: bytes) -> ErrorCode:
    _, position = decode_response_header(ApiKey.PRODUCE, _PRODUCE_VERSION, frame)
    response = decode_response(ApiKey.PRODUCE, _PRODUCE_VERSION, frame[position:])
    if not isinstance(response, ProduceResponse):
        raise TypeError(f"unexpected answer {response}")
    return response.responses[0].partition_responses[0].error_code
