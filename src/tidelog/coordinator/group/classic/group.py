"""A classic group: who is in it, which generation it is in, and who waits for what. A value: it is replaced, not changed.

Only what a generation consists of is written down (`record`); who waits, who is expected and since when lives in memory, and a coordinator
that takes over does without.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.coordinator.group.book import GroupKind
from tidelog.coordinator.group.classic.members import ClassicMember, Members
from tidelog.coordinator.group.classic.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from tidelog.coordinator.group.records import ClassicGroupValue, group_record
from tidelog.coordinator.machine import CoordinatorRecord, Token
from tidelog.model import NO_TIMESTAMP, ApiError, ErrorCode, TimestampMs


class ClassicState(enum.Enum):
    """As Kafka's tools print it. There is no Dead: a group that is gone is not in the book."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # members have to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # the leader has to say who gets what
    STABLE = "Stable"


class InitialDelay(NamedTuple):
    """The first members of an empty group wait a little for others: this long, and so much longer if somebody comes meanwhile."""

    delay_ms: int
    remaining_ms: int
    has_newcomer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """What goes beyond a record has defaults, so that a group can be made from the fields of one."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    state_timestamp_ms: TimestampMs = NO_TIMESTAMP
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: Members = field(default_factory=Members)
    joins: Mapping[str, Token] = field(default_factory=dict)  # parked JoinGroup requests by member
    syncs: Mapping[str, Token] = field(default_factory=dict)  # parked SyncGroup requests by member
    pending: Mapping[str, None] = field(
        default_factory=dict
    )  # ids that were given out and have not joined yet, in order
    unsynced: Mapping[str, None] = field(
        default_factory=dict
    )  # members of this generation who have not asked for their part yet
    initial_delay: InitialDelay | None = None  # while the first members of an empty group wait for others

    @classmethod
    def from_value(cls, group_id: str, value: ClassicGroupValue) -> ClassicGroup:
        """As it was written down."""
        members = Members.of(ClassicMember.from_value(member, value.protocol) for member in value.members)
        return cls(
            group_id=group_id,
            state=ClassicState.STABLE if members else ClassicState.EMPTY,
            state_timestamp_ms=value.state_timestamp_ms,
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol=value.protocol,
            leader=value.leader,
            members=members,
        )

    def record(self) -> CoordinatorRecord:
        """As it is written down."""
        return group_record(
            self.group_id,
            ClassicGroupValue(
                protocol_type=self.protocol_type,
                generation=self.generation,
                protocol=self.protocol,
                leader=self.leader,
                state_timestamp_ms=self.state_timestamp_ms,
                members=tuple(member.value(self.protocol) for member in self.members),
            ),
        )

    @property
    def kind(self) -> GroupKind:
        """Classic."""
        return GroupKind.CLASSIC

    @property
    def state_name(self) -> str:
        """As Kafka's tools print it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no members; one that prepares a rebalance may get some yet."""
        return self.state is ClassicState.EMPTY

    @property
    def empty_since_ms(self) -> TimestampMs | None:
        """When it lost its last member; None too for a group that never had any, and for records too old to say it."""
        if not self.is_empty or not self.protocol_type or self.state_timestamp_ms == NO_TIMESTAMP:
            return None
        return self.state_timestamp_ms

    @property
    def has_everybody_joined(self) -> bool:
        """Whether nobody has to be waited for any longer."""
        return len(self.joins) == len(self.members) and not self.pending

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is; where nobody can tell, it is."""
        if self.is_empty:
            return False
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.protocol is None:
            return True
        for member in self.members:
            topics = subscribed_topics(member.metadata(self.protocol))
            if topics is None or topic in topics:
                return True
        return False

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Whether this is one of its members. Raises ApiError."""
        if instance_id is not None:
            known_id = self.members.by_instance.get(instance_id)
            if known_id is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known_id != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Whether this is a member of the present generation. Raises ApiError."""
        self.check_member(member_id, instance_id)
        if generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def check_commit(self, *, member_id: str, instance_id: str | None, epoch: int, is_transactional: bool) -> None:
        """Members of the present generation may, unless they wait for their parts; of an empty group anybody may. Raises ApiError."""
        if epoch < 0 and self.is_empty:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_generation(member_id, instance_id, epoch)
        elif not is_transactional:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            # It knows the generation, but not yet what it has to read; what it commits was read in the one before.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, *, member_id: str | None, epoch: int) -> None:
        """Anybody may, whatever they say they are."""
