"""Where partitions shall go: from options, or from a file in the format of Kafka's `kafka-reassign-partitions.sh`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeGuard

from tidelog.model import BrokerId, TopicPartition

Targets: TypeAlias = Mapping[TopicPartition, tuple[BrokerId, ...]]


def parse_brokers(text: str) -> tuple[BrokerId, ...]:
    """Read `1,2,3`. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is not a list of broker ids such as 1,2,3")
    brokers = tuple(map(int, parts))
    if len(set(brokers)) != len(brokers):
        raise ValueError(f"{text!r} names a broker twice")
    return brokers


def spread(partitions: Sequence[TopicPartition], brokers: Sequence[BrokerId]) -> Targets:
    """The same brokers for all partitions, taking turns as the preferred leader."""
    return {each: _turned(brokers, each.index if len(partitions) > 1 else 0) for each in partitions}


def _turned(brokers: Sequence[BrokerId], steps: int) -> tuple[BrokerId, ...]:
    start = steps % len(brokers)
    return (*brokers[start:], *brokers[:start])


def parse_file(text: str) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Read `{"version": 1, "partitions": [{"topic": ..., "partition": ..., "replicas": [...]}]}`. Raises ValueError."""
    content = json.loads(text)
    rows = content.get("partitions") if isinstance(content, dict) else None
    if not isinstance(rows, list) or content.get("version", 1) != 1:
        raise ValueError('it is not of the form {"version": 1, "partitions": [...]}')
    targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for row in rows:
        partition, replicas = _row(row)
        if partition in targets:
            raise ValueError(f"{partition} is there twice")
        targets[partition] = replicas
    if not targets:
        raise ValueError("it names no partition")
    return targets


def _row(row: object) -> tuple[TopicPartition, tuple[BrokerId, ...]]:
    content = row if isinstance(row, dict) else {}
    topic, index, replicas = content.get("topic"), content.get("partition"), content.get("replicas")
    if not isinstance(topic, str) or not _is_number(index) or not isinstance(replicas, list):
        raise ValueError(f"{json.dumps(row)} has no topic, partition and replicas")
    if not all(map(_is_number, replicas)) or len(set(replicas)) != len(replicas):
        raise ValueError(f"the replicas of {json.dumps(row)} are not different broker ids")
    return TopicPartition(topic, index), tuple(replicas)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def as_file(targets: Targets) -> str:
    """What `parse_file` reads."""
    rows = [{"topic": each.topic, "partition": each.index, "replicas": list(to)} for each, to in targets.items()]
    return json.dumps({"version": 1, "partitions": rows}, indent=2) + "\n"
