"""A member of a consumer group, as the records of its group say it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""What members say instead of an epoch. A static member that is away keeps -2 as its epoch."""

NOTHING: Final[Assignment] = {}


class MemberState(enum.IntEnum):
    """How far a member has come on the way to its target; numbered as in Kafka's records."""

    STABLE = 0  # it has what it shall have
    UNREVOKED_PARTITIONS = 1  # it has to give something up first
    UNRELEASED_PARTITIONS = 2  # others have to give something up first
    UNKNOWN = 127  # written by a later release

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Everything that is written down about it, apart from its target."""

    member_id: str
    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    assignor: str | None = None
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)  # what it may still have, and must give up
    classic: ClassicMemberMetadata | None = None  # of one that speaks the classic protocol

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all that the target of this epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def advanced(self, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment) -> Member:
        """On its way; the epoch before is remembered, because the answer may get lost."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        """Who it is, as it is written down."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topics)),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """What it has, as it is written down."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=written(self.assigned),
            partitions_pending_revocation=written(self.revoking),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> Member:
        """As a record says who it is."""
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None if classic is None else classic.without_repetitions(),  # Earlier releases wrote them.
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
        """As a record says what it has."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=read(value.assigned_partitions),
            revoking=read(value.partitions_pending_revocation),
        )


def written(assignment: Assignment) -> tuple[TopicPartitions, ...]:
    """As records have it, in an order of its own."""
    return tuple(TopicPartitions(topic_id, tuple(sorted(assignment[topic_id]))) for topic_id in sorted(assignment))


def read(topics: Iterable[TopicPartitions]) -> Assignment:
    """From a record."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in topics if partitions}


def is_subset(some: Assignment, others: Assignment) -> bool:
    """Whether all partitions of the first are among those of the second."""
    return all(partitions <= others.get(topic_id, frozenset()) for topic_id, partitions in some.items())
