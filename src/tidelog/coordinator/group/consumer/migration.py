"""How a group changes its protocol while it runs, as far as `group.consumer.migration.policy` allows.

A classic group becomes a consumer group when the first member of the new protocol joins it: its members stay, with what they have, and go
on as classic members (`classic_members`). When the last member of the new protocol is gone it becomes a classic group again.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.coordinator.group.book import GroupBook, GroupChange
from tidelog.coordinator.group.classic import timing as classic_timing
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.members import ClassicMember, MemberProtocol, Members
from tidelog.coordinator.group.classic.rebalancing import rebalance
from tidelog.coordinator.group.classic.turn import Turn as ClassicTurn
from tidelog.coordinator.group.consumer.embedded import encode_assignment, parse_assignment, parse_subscription
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.leaving import remove_members, tombstones
from tidelog.coordinator.group.consumer.member import NOTHING, Member
from tidelog.coordinator.group.consumer.replaying import Replay
from tidelog.coordinator.group.consumer.turn import Surroundings, Turn
from tidelog.coordinator.group.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataValue,
    consumer_group_metadata_record,
    group_record,
)
from tidelog.coordinator.machine import Decision, Moment
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

UPGRADES = ("upgrade", "bidirectional")
DOWNGRADES = ("downgrade", "bidirectional")


class Migration:
    """Between the two kinds of groups."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    # From classic to consumer.

    def upgrade(self, group: ClassicGroup, now: Moment) -> Turn:
        """Begin a decision with a consumer group in the place of a classic one. Raises ApiError."""
        settings = self._around.settings
        if group.protocol_type != "consumer" or len(group.members) > settings.consumer_max_size:
            raise _not_found(group.group_id, "is not a consumer group")
        if settings.consumer_migration_policy not in UPGRADES:
            raise _not_found(group.group_id, "is not a consumer group, and may not become one")
        try:
            # While its first members wait for others it has no protocol yet, and who came last may not know the one before.
            protocol = group.members.elect_protocol() if group.members else None
            members = [self._upgraded(member, group.generation, protocol) for member in group.members]
        except MalformedMessage as error:
            raise _not_found(group.group_id, "cannot be upgraded: what its members say is malformed") from error
        written = self._written(group, members, now)
        scratch = GroupBook(self._around.topics)
        replay = Replay(scratch)
        for record in written.records:
            replay.apply(record)
        upgraded = scratch.groups[group.group_id]
        if not isinstance(upgraded, ConsumerGroup):
            raise _not_found(group.group_id, "has no members")
        turn = Turn(upgraded, self._around, now, [group_record(group.group_id, None), *written.records])
        _send_away(turn, group)
        for member in members:
            turn.restart_session(member)
        return turn

    def _upgraded(self, member: ClassicMember, generation: int, protocol: str | None) -> Member:
        """With what the last generation gave it. Raises MalformedMessage."""
        subscription = parse_subscription(member.metadata(protocol), self._around.topics)
        return Member(
            member_id=member.member_id,
            epoch=generation,
            previous_epoch=generation,
            instance_id=member.instance_id,
            rack_id=subscription.rack,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topics=subscription.topics,
            assigned=parse_assignment(member.assignment, self._around.topics),
            classic=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=tuple(ClassicProtocol(name=name, metadata=said) for name, said in member.protocols),
            ),
        )

    def _written(self, group: ClassicGroup, members: list[Member], now: Moment) -> Turn:
        turn = Turn(ConsumerGroup(group.group_id), self._around, now)
        for member in members:
            turn.write_member(member)
        value = ConsumerGroupMetadataValue(epoch=group.generation)
        turn.records.append(consumer_group_metadata_record(group.group_id, value))
        for member in members:
            turn.write_target(member.member_id, member.assigned)
        turn.write_target_epoch(group.generation)
        for member in members:
            turn.write_assignment(member)
        return turn

    # From consumer to classic.

    def remove(self, turn: Turn, gone: Collection[str]) -> Decision:
        """Members are gone. If only classic ones are left, so is the group."""
        group = turn.group
        rest = [member for member_id, member in group.members.items() if member_id not in gone]
        is_last = any(group.members[member_id].classic is None for member_id in gone)
        if is_last and self.can_downgrade(rest):
            return self.handed_over(turn, self.downgraded(turn, rest, goes_on=False))
        remove_members(turn, gone)
        return turn.decision()

    def can_downgrade(self, members: Collection[Member]) -> bool:
        """Whether these could be a classic group."""
        settings = self._around.settings
        return (
            settings.consumer_migration_policy in DOWNGRADES
            and 0 < len(members) <= settings.max_size
            and all(member.classic is not None for member in members)
        )

    def downgraded(self, turn: Turn, members: Collection[Member], *, goes_on: bool) -> ClassicTurn:
        """A classic group of these members, each with its target. The consumer group is forgotten.

        Unless everybody has its target and can go on, they have to join. Nobody leads until then, which a coordinator that takes over
        meanwhile understands: it would never know of what was not given to anybody otherwise.
        """
        group, topics = turn.group, self._around.topics
        for member_id in group.members:
            turn.stop_timers(member_id)
        turn.records += tombstones(group)
        everybody = Members.of(_downgraded(member) for member in members)
        protocol = everybody.elect_protocol()
        assignments = {
            member.member_id: encode_assignment(
                group.targets.get(member.member_id, NOTHING), member.metadata(protocol), topics
            )
            for member in everybody
        }
        classic = ClassicGroup(
            group_id=group.group_id,
            state=ClassicState.STABLE,
            state_timestamp_ms=turn.now.wall_ms,
            generation=group.epoch,
            protocol_type="consumer",
            protocol=protocol,
            leader=everybody.first_id if goes_on else None,
            members=everybody.assigned(assignments),
        )
        turn.records.append(classic.record())
        theirs = ClassicTurn(classic, turn.around.settings, turn.now)
        if not goes_on:
            rebalance(theirs)
        return theirs

    def handed_over(self, turn: Turn, classic: ClassicTurn) -> Decision:
        """What both sides want; the classic group is looked after by its own area from now on."""
        for member in classic.group.members:
            classic.restart_session(member.member_id)
        theirs, ours = classic.decision(), turn.decision()
        return Decision(
            replies=ours.replies + theirs.replies,
            records=ours.records + theirs.records,
            changes=(GroupChange(turn.group.group_id, classic.group),),
            timers=ours.timers + theirs.timers,
        )


def _downgraded(member: Member) -> ClassicMember:
    classic = member.classic or ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple(MemberProtocol(each.name, each.metadata) for each in classic.supported_protocols),
    )


def _send_away(turn: Turn, group: ClassicGroup) -> None:
    """Whoever waits in a classic rebalance has to join again, and its timers mean nothing any more."""
    rejoin = ErrorCode.REBALANCE_IN_PROGRESS
    for member_id, token in group.joins.items():
        turn.reply(token, JoinGroupResponse(error_code=rejoin, member_id=member_id))
    for token in group.syncs.values():
        turn.reply(token, SyncGroupResponse(error_code=rejoin))
    for member_id in (*group.members.by_id, *group.pending):
        turn.timers[classic_timing.SessionTimer(group.group_id, member_id)] = None
    turn.timers[classic_timing.JoinTimer(group.group_id)] = None
    turn.timers[classic_timing.SyncTimer(group.group_id)] = None


def _not_found(group_id: str, why: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
