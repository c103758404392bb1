"""Every replica of every partition, side by side: who leads, who follows, and how far behind.

The leader of a partition is believed about the in-sync replicas and about when a follower last had everything; each replica is
believed about itself. A broker that did not answer is shown with what the leader last heard of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.cli.output import Cell, Row
from tidelog.client import RemoteReplica, ReplicaDescription
from tidelog.model import BrokerId, TimestampMs, TopicPartition

COLUMNS: Final = (
    "topic",
    "partition",
    "broker",
    "role",
    "leader_epoch",
    "log_end_offset",
    "high_watermark",
    "last_stable_offset",
    "lag",
    "in_isr",
    "last_caught_up",
)
_OF_ITSELF: Final = (
    "leader_epoch",
    "last_epoch",
    "log_start_offset",
    "log_end_offset",
    "high_watermark",
    "last_stable_offset",
)
_UNKNOWN: Final[dict[str, Cell]] = dict.fromkeys([*COLUMNS, *_OF_ITSELF, "last_caught_up_ms"])
_NOW_MS: Final = 1_000
_INTERNAL: Final = "__"  # has tens of partitions, which would fill a terminal


@dataclass(slots=True)
class _Partition:
    """What brokers say of one partition."""

    told: dict[BrokerId, ReplicaDescription] = field(default_factory=dict)

    @property
    def leader(self) -> tuple[BrokerId, ReplicaDescription] | None:
        """The one that leads in the newest epoch."""
        leading = [
            (told.leader_epoch, broker_id) for broker_id, told in self.told.items() if told.is_ok and told.is_leader
        ]
        if not leading:
            return None
        _, broker_id = max(leading)
        return broker_id, self.told[broker_id]

    @property
    def brokers(self) -> list[BrokerId]:
        """Everybody who has, or should have, a replica: as assigned, then the rest."""
        newest = max(self.told.values(), key=lambda told: told.leader_epoch)
        others = sorted(set(self.told) - set(newest.assignment))
        return [*newest.assignment, *others]


def replica_rows(answers: Mapping[BrokerId, Iterable[ReplicaDescription]], *, now_ms: TimestampMs) -> list[Row]:
    """One row per replica, sorted by topic and partition, in the order of the assignment; internal topics after those of users."""
    partitions: dict[TopicPartition, _Partition] = {}
    for broker_id, replicas in answers.items():
        for replica in replicas:
            partitions.setdefault(replica.topic_partition, _Partition()).told[broker_id] = replica
    return [
        _row(each, broker_id, partitions[each], now_ms)
        for each in sorted(partitions, key=lambda each: (each.topic.startswith(_INTERNAL), each))
        for broker_id in partitions[each].brokers
    ]


def _row(name: TopicPartition, broker_id: BrokerId, partition: _Partition, now_ms: TimestampMs) -> Row:
    told = partition.told.get(broker_id)
    leading = partition.leader
    remote = None if leading is None else _remote(leading[1], broker_id)
    isr: Sequence[BrokerId] = leading[1].isr if leading is not None else told.isr if told is not None else ()
    row: dict[str, Cell] = {
        "topic": name.topic,
        "partition": name.index,
        "broker": broker_id,
        "role": _role(broker_id, told, leading),
        "log_end_offset": None if remote is None or remote.log_end_offset < 0 else remote.log_end_offset,
        "in_isr": broker_id in isr,
    }
    if told is not None and told.is_ok:
        row |= {each: getattr(told, each) for each in _OF_ITSELF}
    end = row["log_end_offset"]
    if leading is not None and isinstance(end, int):
        row["lag"] = max(0, leading[1].log_end_offset - end)
    if leading is not None and remote is not None and remote.last_caught_up_ms >= 0:
        # Who has everything is caught up, also if it has had nothing to fetch for hours.
        is_now = remote.log_end_offset >= leading[1].log_end_offset
        row["last_caught_up"] = ago(0 if is_now else now_ms - remote.last_caught_up_ms)
        row["last_caught_up_ms"] = remote.last_caught_up_ms
    return {**_UNKNOWN, **row}


def _remote(leader: ReplicaDescription, broker_id: BrokerId) -> RemoteReplica | None:
    return next((each for each in leader.remotes if each.broker_id == broker_id), None)


def _role(
    broker_id: BrokerId, told: ReplicaDescription | None, leading: tuple[BrokerId, ReplicaDescription] | None
) -> str:
    if told is None:
        return "no answer"
    if not told.is_ok:
        return told.code.name.lower()
    if not told.is_leader:
        return "follower"
    return "leader" if leading is not None and leading[0] == broker_id else "old leader"


def ago(elapsed_ms: float) -> str:
    """How long ago something was, in a word or two."""
    if elapsed_ms < _NOW_MS:
        return "now"
    seconds = int(elapsed_ms // 1000)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"
