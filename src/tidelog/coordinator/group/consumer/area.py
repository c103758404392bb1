"""Consumer groups as a part of the group machine: ConsumerGroupHeartbeat, ConsumerGroupDescribe, key versions 3 to 8 and 16.

The same requests that classic groups get are decided here for groups that have become consumer groups while classic members are in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidelog.coordinator.group.area import LOOKS_AT_ONCE, Decider, OnTimer, Refuser, Replayer
from tidelog.coordinator.group.asked import asked, rung
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.classic.group import ClassicGroup
from tidelog.coordinator.group.consumer.checking import check_request
from tidelog.coordinator.group.consumer.classic_members import ClassicMembers
from tidelog.coordinator.group.consumer.describing import describe
from tidelog.coordinator.group.consumer.group import ConsumerGroup, Seen, names_of
from tidelog.coordinator.group.consumer.heartbeat import beat, says_nothing_new
from tidelog.coordinator.group.consumer.joining import is_regex_refresh_due, refresh_regexes
from tidelog.coordinator.group.consumer.leaving import known_member, leave_for_a_while
from tidelog.coordinator.group.consumer.member import JOINS, LEAVES_FOR_A_WHILE, MemberState
from tidelog.coordinator.group.consumer.migration import Migration
from tidelog.coordinator.group.consumer.regex import Matches
from tidelog.coordinator.group.consumer.replaying import Replay
from tidelog.coordinator.group.consumer.timing import TIMERS, MemberTimer, RevocationTimer, SessionTimer
from tidelog.coordinator.group.consumer.topics import TopicHashes
from tidelog.coordinator.group.consumer.turn import Surroundings, Turn
from tidelog.coordinator.group.log_errors import coordinator_error
from tidelog.coordinator.group.records import group_record
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import NO_DECISION, Command, Decision, Moment, Reply, TimerChange, TimerKey
from tidelog.model import ApiError, ErrorCode, Offset, ProducerId
from tidelog.runtime import Randomness
from tidelog.wire.definition import Request, Response
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerArea:
    """Everything about consumer groups."""

    def __init__(self, book: GroupBook, settings: GroupSettings, randomness: Randomness) -> None:
        self._book = book
        self._settings = settings
        self._randomness = randomness
        self._around = Surroundings(settings, book.topics, TopicHashes(book.topics), Matches(book.topics))
        self._migration = Migration(self._around)
        self._classic_members = ClassicMembers(book, self._around, self._migration, randomness)

    @property
    def deciders(self) -> Mapping[type[Request[Any]], Decider]:
        """Two requests."""
        return {
            ConsumerGroupHeartbeatRequest: self._decide_heartbeat,
            ConsumerGroupDescribeRequest: self._decide_describe,
        }

    @property
    def refusers(self) -> Mapping[type[Request[Any]], Refuser]:
        """The same two."""
        return {ConsumerGroupHeartbeatRequest: _refuse_heartbeat, ConsumerGroupDescribeRequest: _refuse_describe}

    @property
    def classic_requests(self) -> Mapping[type[Request[Any]], Decider]:
        """JoinGroup, SyncGroup, Heartbeat and LeaveGroup where the group is a consumer group."""
        return self._classic_members.deciders

    @property
    def replayers(self) -> Mapping[int, Replayer]:
        """Seven kinds of records."""
        return Replay(self._book).replayers

    @property
    def timers(self) -> Mapping[type, OnTimer]:
        """Whatever a member has not done in time, it is removed."""
        return dict.fromkeys(TIMERS, self._on_timer)

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """All members have their whole session, and their whole time to give something up."""
        for count, group in enumerate(list(self._book.groups.values())):
            if isinstance(group, ConsumerGroup):
                yield self._take_over(group, now)
            elif count % LOOKS_AT_ONCE == 0:
                yield NO_DECISION

    def _take_over(self, group: ConsumerGroup, now: Moment) -> Decision:
        group.seen = Seen()
        turn = Turn(group, self._around, now)
        for member in group.members.values():
            turn.restart_session(member)
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                turn.time_revocation(member, is_revoking=member.epoch != LEAVES_FOR_A_WHILE)
        return Decision(timers=tuple(TimerChange(key, at_ms) for key, at_ms in turn.timers.items()))

    def on_topics_changed(self, now: Moment) -> Decision:
        """Groups that this concerns get another epoch; what follows for whom is computed when the first of them gives a sign of life."""
        turns = [self._look_at_topics(Turn(group, self._around, now)) for group in self._groups() if group.members]
        # One group does not wait for another; and one whose regexes are written, but not its epoch, is found again by the hash of its topics.
        return Decision(records=tuple(record for turn in turns for record in turn.records), may_be_cut=True)

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """Groups are not written in transactions."""

    def _groups(self) -> list[ConsumerGroup]:
        return [group for group in self._book.groups.values() if isinstance(group, ConsumerGroup)]

    def _look_at_topics(self, turn: Turn) -> Turn:
        group, resolutions = turn.group, dict(turn.group.resolutions)
        is_changed = bool(group.regexes) and is_regex_refresh_due(turn) and refresh_regexes(turn, resolutions)
        names = names_of(group.members.values(), resolutions)
        if is_changed or self._around.hashes.metadata_hash(names) != group.metadata_hash:
            turn.write_epoch(group.epoch + 1, names)
        return turn

    # Requests.

    def _decide_heartbeat(self, command: Command, now: Moment) -> Decision:
        request = asked(command, ConsumerGroupHeartbeatRequest)
        group = self._book.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and says_nothing_new(request, command.client, group, self._around, now):
            return self._still_there(command, request, now)
        try:
            check_request(request, command.client.version, self._settings)
            if request.member_epoch < JOINS:
                return self._leave(command, request, now)
            turn = self._turn(request, now)
            response = beat(turn, request, command.client, self._randomness)
        except ApiError as error:
            response = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return Decision(replies=(Reply(command.token, response),), is_told_at_once=True)
        turn.reply(command.token, response)
        return turn.decision()

    def _still_there(self, command: Command, request: ConsumerGroupHeartbeatRequest, now: Moment) -> Decision:
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=self._settings.consumer_heartbeat_interval_ms,
        )
        until_ms = now.monotonic_ms + self._settings.consumer_session_timeout_ms
        timer = TimerChange(SessionTimer(request.group_id, request.member_id), until_ms)
        return Decision(replies=(Reply(command.token, response),), timers=(timer,), is_told_at_once=True)

    def _turn(self, request: ConsumerGroupHeartbeatRequest, now: Moment) -> Turn:
        """The group, or one that begins with this request, be it in the place of a classic one. Raises ApiError."""
        group = self._book.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return Turn(group, self._around, now)
        if request.member_epoch != JOINS:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        if isinstance(group, ClassicGroup) and not group.is_empty:
            return self._migration.upgrade(group, now)
        turn = Turn(ConsumerGroup(request.group_id), self._around, now)
        if group is not None:
            turn.records.append(group_record(request.group_id, None))
        return turn

    def _leave(self, command: Command, request: ConsumerGroupHeartbeatRequest, now: Moment) -> Decision:
        group = self._book.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        member = known_member(group, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch
        )
        turn = Turn(group, self._around, now)
        turn.reply(command.token, response)
        if request.member_epoch == LEAVES_FOR_A_WHILE:
            leave_for_a_while(turn, member)
            return turn.decision()
        return self._migration.remove(turn, (member.member_id,))

    def _decide_describe(self, command: Command, now: Moment) -> Decision:
        request = asked(command, ConsumerGroupDescribeRequest)
        default = self._around.default_assignor
        groups = tuple(
            describe(group_id, self._book.groups.get(group_id), self._book.topics, default)
            for group_id in request.group_ids
        )
        return Decision(replies=(Reply(command.token, ConsumerGroupDescribeResponse(groups=groups)),))

    # Timers.

    def _on_timer(self, key: TimerKey, now: Moment) -> Decision:
        timer = rung(key, MemberTimer)
        group = self._book.groups.get(timer.group_id)
        if not isinstance(group, ConsumerGroup) or timer.member_id not in group.members:
            return NO_DECISION
        is_revoking = group.members[timer.member_id].state is MemberState.UNREVOKED_PARTITIONS
        if isinstance(timer, RevocationTimer) and not is_revoking:
            return NO_DECISION
        return self._migration.remove(Turn(group, self._around, now), (timer.member_id,))


def _refuse_heartbeat(command: Command, code: ErrorCode) -> Response:
    return ConsumerGroupHeartbeatResponse(error_code=coordinator_error(code))


def _refuse_describe(command: Command, code: ErrorCode) -> Response:
    request = asked(command, ConsumerGroupDescribeRequest)
    said = coordinator_error(code)
    groups = tuple(DescribedGroup(error_code=said, group_id=group_id) for group_id in request.group_ids)
    return ConsumerGroupDescribeResponse(groups=groups)
