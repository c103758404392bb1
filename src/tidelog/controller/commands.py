"""What the controller can be asked to decide, and what a decision is."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidelog.controller.alteration import ConfigAlteration
from tidelog.controller.channels import ReplicaEnd
from tidelog.controller.growth import MorePartitions
from tidelog.controller.image import BrokerEpoch, BrokerImage, ClusterImage, PartitionState
from tidelog.controller.topics import NewTopic, TopicResult
from tidelog.model import ApiError, BrokerId, LeaderEpoch, TopicId, TopicPartition
from tidelog.registry import Operation

Write: TypeAlias = tuple[Operation, ...]

ANY_EPOCH: Final = -1  # of a replica in a proposal of AlterPartition before version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Make these topics. Whoever only wants to know whether they could be made performs none of the writes."""

    topics: Sequence[NewTopic]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """Begin to delete these topics: from now on they do not exist for anybody, and a mark promises the rest."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """Give these topics more partitions."""

    topics: Sequence[MorePartitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """Change the settings of these topics and brokers, each for itself."""

    alterations: Sequence[ConfigAlteration]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeBrokers:
    """These brokers are registered now. Their partitions are to be reconsidered next; nothing is written."""

    brokers: Mapping[BrokerId, BrokerImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconsider:
    """Bring these partitions in line with who is there: elections, ISRs without the dead, reassignments that are complete.

    What brokers led before they `restarted` has ended; of those, the `forgetful` are not intact.
    """

    partitions: Sequence[TopicPartition]
    restarted: frozenset[BrokerId] = frozenset()
    forgetful: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """One partition of an AlterPartition request; it names the topic, or its id."""

    topic: str | None = None
    topic_id: TopicId | None = None
    index: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[tuple[BrokerId, BrokerEpoch], ...]  # with ANY_EPOCH where the version has none
    is_recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    """A leader's proposals for the ISRs of what it leads."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    changes: Sequence[IsrChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginShutdown:
    """A broker is about to leave: from now on it is nobody's next leader. Its partitions are to be reconsidered next."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Distrust:
    """A broker has met rot in these replicas of its own, and asks for leave to cut it away: nobody may count on them any more."""

    broker_id: BrokerId
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseReplicas:
    """A broker cannot serve these replicas any more, since their disk failed. They are to be reconsidered next.

    Of a former life of the broker that says nothing: the disks of the present one may be in order.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMinimums:
    """Every leader has heard by now of the min.insync.replicas that hold, or is none any more."""


class ElectionType(enum.IntEnum):
    """Who is to lead, as ElectLeaders numbers it."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """Elect preferred leaders, or, where nobody leads, anybody."""

    kind: ElectionType
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectGreatest:
    """Elect the replicas whose logs go farthest, for partitions that wait for that; `broker_epochs` says whom we have asked."""

    ends: Mapping[TopicPartition, Mapping[BrokerId, ReplicaEnd]]
    broker_epochs: Mapping[BrokerId, BrokerEpoch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """Move partitions to these replicas, in this order; None cancels what is running."""

    wanted: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


Command: TypeAlias = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | SeeBrokers
    | Reconsider
    | AlterPartition
    | BeginShutdown
    | LoseReplicas
    | Distrust
    | ForgetMinimums
    | ElectLeaders
    | ElectGreatest
    | Reassign
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A partition that goes from one state to another."""

    topic_partition: TopicPartition
    before: PartitionState
    after: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to write, in this order, what the cluster then is, and what to answer.

    Writes are encoded one by one as they are asked for: all states of a large topic take longer than the loop may be held.
    """

    writes: Iterable[Write] = ()
    image: ClusterImage
    results: tuple[TopicResult, ...] = ()  # of topics that come or go
    errors: tuple[ApiError | None, ...] = ()  # of what is changed: per item, why it is not
    states: tuple[PartitionState | ApiError, ...] = ()  # of proposals: per item, what holds now, or why not
    changes: tuple[Change, ...] = ()  # of partitions that were there before
    reconsider: tuple[TopicPartition, ...] = field(default=())  # what this gives reason to look at next
