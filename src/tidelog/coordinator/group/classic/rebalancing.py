"""How a classic group gets from one generation to the next: everybody joins, or is left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState, InitialDelay
from tidelog.coordinator.group.classic.timing import JoinTimer, SyncTimer
from tidelog.coordinator.group.classic.turn import Turn
from tidelog.model import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.sync_group import SyncGroupResponse

_LOOK_AGAIN_MS: Final = 1_000


def rebalance(turn: Turn) -> None:
    """Something has changed: have everybody join, or go on if everybody has."""
    if turn.group.state is ClassicState.PREPARING_REBALANCE:
        complete_if_everybody_joined(turn)
    else:
        _prepare(turn)


def complete_if_everybody_joined(turn: Turn) -> None:
    """Go on if nobody has to be waited for. The first members of a group wait until their time is over, whoever is there."""
    group = turn.group
    if group.state is ClassicState.PREPARING_REBALANCE and group.initial_delay is None and group.has_everybody_joined:
        complete(turn)


def complete(turn: Turn) -> None:
    """Begin the next generation with those who have joined. Static members who have not keep their places until their sessions end."""
    turn.stop_timer(JoinTimer(turn.group.group_id))
    turn.group = replace(turn.group, initial_delay=None)
    late = [member.member_id for member in turn.group.members if member.member_id not in turn.group.joins]
    turn.remove(member_id for member_id in late if not turn.group.members[member_id].is_static)
    if not turn.group.members:
        _empty(turn)
    elif not turn.group.joins:
        # Nobody could lead: wait until somebody comes, or the sessions of all are over. Members may say that they need no time at all.
        delay_ms = max(turn.group.members.rebalance_timeout_ms, _LOOK_AGAIN_MS)
        turn.set_timer(JoinTimer(turn.group.group_id), delay_ms)
    else:
        _begin_generation(turn)


def on_join_timer(turn: Turn) -> None:
    """The time is over. If it was a first one and somebody came meanwhile, there may be others: wait a little longer."""
    group = turn.group
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    initial = group.initial_delay
    if initial is None or not initial.has_newcomer or initial.remaining_ms == 0:
        complete(turn)
        return
    delay_ms = min(turn.settings.initial_rebalance_delay_ms, initial.remaining_ms)
    remaining_ms = max(initial.remaining_ms - initial.delay_ms, 0)
    turn.group = replace(group, initial_delay=InitialDelay(delay_ms, remaining_ms))
    turn.set_timer(JoinTimer(group.group_id), delay_ms)


def on_sync_timer(turn: Turn) -> None:
    """The time is over: whoever has not asked for its part of the new generation is gone."""
    group = turn.group
    if group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) and group.unsynced:
        turn.remove(list(group.unsynced))
        _prepare(turn)


def generation_response(group: ClassicGroup, member_id: str, *, skips_assignment: bool = False) -> JoinGroupResponse:
    """What a member of the present generation is told; the leader is told what all said about themselves."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        skip_assignment=skips_assignment,
        member_id=member_id,
        members=_introductions(group) if member_id == group.leader else (),
    )


def _introductions(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members
    )


def _prepare(turn: Turn) -> None:
    """Have everybody join again. Parts of the present generation that nobody has got yet are worth nothing any more."""
    group = turn.group
    for member_id, token in group.syncs.items():
        turn.reply(token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        turn.restart_session(member_id)
    turn.stop_timer(SyncTimer(group.group_id))
    is_initial = group.state is ClassicState.EMPTY
    turn.group = replace(group, syncs={}, unsynced={})
    turn.enter(ClassicState.PREPARING_REBALANCE)
    timeout_ms = group.members.rebalance_timeout_ms
    if is_initial:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        turn.group = replace(turn.group, initial_delay=InitialDelay(delay_ms, max(timeout_ms - delay_ms, 0)))
        turn.set_timer(JoinTimer(group.group_id), delay_ms)
    elif turn.group.has_everybody_joined:
        complete(turn)
    else:
        turn.set_timer(JoinTimer(group.group_id), timeout_ms)


def _empty(turn: Turn) -> None:
    """Nobody is left. That there is an end to it is written down, so that offsets can expire."""
    turn.group = replace(turn.group, generation=turn.group.generation + 1, protocol=None, leader=None)
    turn.enter(ClassicState.EMPTY)
    turn.write()


def _begin_generation(turn: Turn) -> None:
    """Tell everybody, and wait for the leader to say who gets what. Whoever led before leads again if it has joined."""
    group = turn.group
    leader = group.leader if group.leader in group.joins else next(iter(group.joins))
    turn.group = replace(
        group,
        generation=group.generation + 1,
        protocol=group.members.elect_protocol(),
        leader=leader,
        members=group.members.settled(),
        joins={},
        unsynced=dict.fromkeys(group.members.by_id),
    )
    turn.enter(ClassicState.COMPLETING_REBALANCE)
    for member_id, token in group.joins.items():
        turn.reply(token, generation_response(turn.group, member_id))
    for member_id in group.members.by_id:
        turn.restart_session(member_id)
    turn.set_timer(SyncTimer(group.group_id), group.members.rebalance_timeout_ms)
