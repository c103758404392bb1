"""What a topic to be created must be like: names, counts, assignments, settings. Kafka's errors with Kafka's messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from tidelog.config import BrokerConfig, ConfigError, LogConfig
from tidelog.controller.placement import Assignment
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicId

NAME_LENGTH_MAX: Final = 249
DEFAULT: Final = -1  # "as the broker's settings say"

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic somebody wants: either counts or an assignment of its own, and settings."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Assignment] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """What became of one topic of a request: an error, or what was made (or, for a deletion, what is gone)."""

    name: str
    error: ApiError | None = None
    topic_id: TopicId | None = None
    partition_count: int = -1
    replication_factor: int = -1


def check_name(name: str) -> None:
    """Raise ApiError unless the text can name a topic, and thus a directory."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif _NAME.fullmatch(name) is None:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


class TakenNames:
    """The topics there are. Names that differ only in '.' and '_' collide, because they are one name in metrics."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._added: dict[str, None] = {}

    def add(self, name: str) -> None:
        """One more topic."""
        self._added[name] = None

    def check(self, name: str) -> None:
        """Raise ApiError if the topic, or one it would collide with, exists."""
        if name in self._names or name in self._added:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        colliding = self._colliding(name)
        if colliding:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {', '.join(sorted(colliding))}",
            )

    def _colliding(self, name: str) -> list[str]:
        if "." not in name and "_" not in name:
            return []  # so that making many topics does not cost a look at all of them each time
        folded, length = name.replace(".", "_"), len(name)
        return [
            other
            for other in chain(self._names, self._added)
            if len(other) == length and other.replace(".", "_") == folded
        ]


def check_request(topics: Iterable[NewTopic], broker: BrokerConfig) -> None:
    """Raise ApiError if one request asks for more partitions than are made at a time."""
    partition_count = sum(len(topic.assignments) or max(topic.num_partitions, 1) for topic in topics)
    if partition_count > broker.partitions_per_request_max:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def check_configs(topic: NewTopic, broker: BrokerConfig) -> dict[str, str]:
    """The topic's own settings, proven to be usable. Raises ApiError."""
    nulls = sorted(name for name, value in topic.configs.items() if value is None)
    if nulls:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {name: value for name, value in topic.configs.items() if value is not None}
    try:
        LogConfig.from_properties(configs, broker)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


def counts(topic: NewTopic, broker: BrokerConfig) -> tuple[int, int]:
    """Partitions and replicas of a topic without an assignment of its own. Raises ApiError."""
    if topic.num_partitions <= 0 and topic.num_partitions != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0, or -1 to use the default value.",
        )
    if topic.replication_factor <= 0 and topic.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    partition_count = broker.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    is_default = topic.replication_factor == DEFAULT
    return partition_count, broker.default_replication_factor if is_default else topic.replication_factor


def check_assignments(topic: NewTopic, brokers: Collection[BrokerId]) -> list[Assignment]:
    """The topic's own assignment, in order of partitions. Raises ApiError."""
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    if sorted(topic.assignments) != list(range(len(topic.assignments))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    ordered = [tuple(topic.assignments[index]) for index in sorted(topic.assignments)]
    for index, replicas in enumerate(ordered):
        _check_replicas(index, replicas, brokers)
    if len({len(replicas) for replicas in ordered}) != 1:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all partitions should have the same number of replicas")
    return ordered


def _check_replicas(index: int, replicas: Assignment, brokers: Collection[BrokerId]) -> None:
    unknown = [broker for broker in replicas if broker not in brokers]
    if not replicas:
        reason = f"partition {index} has no replica"
    elif len(set(replicas)) != len(replicas):
        reason = f"duplicate replica assignment found for partition {index}: {list(replicas)}"
    elif unknown:
        reason = f"unknown broker(s) for partition {index}: {unknown}"
    else:
        return
    raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
