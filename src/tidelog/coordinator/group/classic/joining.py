"""JoinGroup: somebody wants to be in the next generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.members import ClassicMember, MemberProtocol
from tidelog.coordinator.group.classic.rebalancing import (
    complete_if_everybody_joined,
    generation_response,
    rebalance,
)
from tidelog.coordinator.group.classic.timing import NEW_MEMBER_JOIN_TIMEOUT_MS, SessionTimer
from tidelog.coordinator.group.classic.turn import Turn
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import Command, Token
from tidelog.model import ApiError, ErrorCode
from tidelog.runtime import Randomness
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.primitives import CLASSIC_STRING_BYTES_MAX

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
PENDING_MAX: Final = 2_000
"""How many ids a group remembers that were given out and not used; beyond that the oldest is forgotten, and is asked to begin again."""
_NAME_CHARACTERS_MAX: Final = 8_000
"""How much of a client's name an id begins with. Ids are written as strings of at most 32,767 bytes, and names may be as long alone."""


def check_join(request: JoinGroupRequest, settings: GroupSettings) -> None:
    """What can be said without looking at the group. Raises ApiError."""
    if not request.group_id or _is_too_long(request.group_id):
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
    names = (request.member_id, request.group_instance_id or "", request.protocol_type)
    if any(_is_too_long(name) for name in (*names, *(protocol.name for protocol in request.protocols))):
        raise ApiError(ErrorCode.INVALID_REQUEST)


class Join:
    """One request to join one group."""

    def __init__(self, turn: Turn, command: Command, request: JoinGroupRequest, randomness: Randomness) -> None:
        self._turn = turn
        self._token: Token = command.token
        self._client = command.client
        self._request = request
        self._randomness = randomness
        # A name that comes twice counts once.
        by_name = {protocol.name: protocol.metadata for protocol in reversed(request.protocols)}
        self._protocols = tuple(
            MemberProtocol(name, by_name[name])
            for name in dict.fromkeys(protocol.name for protocol in request.protocols)
        )

    def decide(self) -> bool:
        """Do what the request calls for. Returns whether the answer, if there is one already, tells nothing of what is written."""
        request, group = self._request, self._turn.group
        if not self._has_room(group):
            self._turn.remove((request.member_id,))
            complete_if_everybody_joined(self._turn)
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
            return True
        if not self._fits(group):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id)
            return True
        if not request.member_id:
            return self._join_unknown()
        if request.member_id in group.pending and request.group_instance_id is None:
            self._add(request.member_id)
            return False
        return self._join_again()

    # Who may.

    def _has_room(self, group: ClassicGroup) -> bool:
        """Members that are in are not sent away by somebody else's join; while a group is rebalanced, those who come first stay."""
        room = self._turn.settings.max_size
        if group.state is ClassicState.EMPTY:
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            return self._request.member_id in group.joins or len(group.joins) < room
        return self._request.member_id in group.members or len(group.members) < room

    def _fits(self, group: ClassicGroup) -> bool:
        """Whether there is a protocol that everybody would support."""
        if group.state is ClassicState.EMPTY:
            return bool(self._request.protocol_type) and bool(self._protocols)
        is_same_type = group.protocol_type == self._request.protocol_type
        return is_same_type and group.members.can_all_use(name for name, _ in self._protocols)

    # Who it is.

    def _join_unknown(self) -> bool:
        """Somebody without an id gets one. Static members get a place with it, or the one that they had."""
        instance_id = self._request.group_instance_id
        if instance_id is not None:
            former_id = self._turn.group.members.by_instance.get(instance_id)
            new_id = self._new_id(instance_id)
            if former_id is None:
                self._add(new_id)
            else:
                self._replace_static(former_id, new_id)
            return False
        new_id = self._new_id(self._client.client_id)
        if self._client.version < MEMBER_ID_REQUIRED_SINCE:
            self._add(new_id)
            return False
        # It has to come back with this id. Otherwise every join that is given up and tried again would leave a dead member behind.
        turn = self._turn
        if len(turn.group.pending) >= PENDING_MAX:
            turn.remove((next(iter(turn.group.pending)),))
        turn.group = replace(turn.group, pending={**turn.group.pending, new_id: None})
        turn.set_timer(SessionTimer(turn.group.group_id, new_id), self._request.session_timeout_ms)
        self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id)
        return True

    def _join_again(self) -> bool:
        """A member joins again because it was told to, because it has something new to say, or because it missed the answer."""
        request, group = self._request, self._turn.group
        try:
            group.check_member(request.member_id, request.group_instance_id)
        except ApiError as error:
            self._refuse(error.code, member_id=request.member_id)
            return True
        member = group.members[request.member_id]
        is_same = member.protocols == self._protocols
        # The leader that joins a stable group wants a new generation: it knows something that it does not say about itself.
        is_missed = is_same and (
            group.state is ClassicState.COMPLETING_REBALANCE
            or (group.state is ClassicState.STABLE and request.member_id != group.leader)
        )
        if is_missed:
            self._turn.reply(self._token, generation_response(group, request.member_id))
            self._turn.restart_session(request.member_id)
        else:
            self._turn.put_member(self._as_it_says_now(member))
            self._turn.park_join(request.member_id, self._token)
            rebalance(self._turn)
        return False

    def _add(self, member_id: str) -> None:
        """One more."""
        turn, request = self._turn, self._request
        group = turn.group
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=self._client.client_id,
            client_host=self._client.host,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=self._protocols,
            is_new=True,
        )
        initial = group.initial_delay
        turn.group = replace(
            group,
            pending={other: None for other in group.pending if other != member_id},
            protocol_type=group.protocol_type if group.members else request.protocol_type,
            leader=group.leader or member_id,
            initial_delay=None if initial is None else initial._replace(has_newcomer=True),
        )
        turn.put_member(member)
        turn.park_join(member_id, self._token)
        turn.set_timer(SessionTimer(group.group_id, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
        rebalance(turn)

    def _replace_static(self, former_id: str, new_id: str) -> None:
        """A static member has restarted. Whoever still waits under its former id is fenced; the place stays the same."""
        turn = self._turn
        former_leader = turn.group.leader
        turn.refuse_parked(former_id, ErrorCode.FENCED_INSTANCE_ID, as_member_id=former_id)
        turn.stop_timer(SessionTimer(turn.group.group_id, former_id))
        group = turn.group
        turn.group = replace(
            group,
            members=group.members.replaced(former_id, new_id),
            leader=new_id if former_leader == former_id else former_leader,
            unsynced={new_id if waiting == former_id else waiting: None for waiting in group.unsynced},
        )
        turn.put_member(self._as_it_says_now(turn.group.members[new_id]))
        turn.restart_session(new_id)
        if group.state is ClassicState.STABLE and turn.group.members.elect_protocol() == group.protocol:
            self._go_on(new_id, former_leader or "")
            return
        turn.park_join(new_id, self._token)
        if group.state is ClassicState.PREPARING_REBALANCE:
            complete_if_everybody_joined(turn)
        else:
            rebalance(turn)

    def _go_on(self, new_id: str, former_leader: str) -> None:
        """Nothing has changed but an id: the generation goes on, and everybody keeps what was assigned."""
        turn = self._turn
        is_leader = turn.group.leader == new_id
        turn.write()
        if self._client.version >= SKIP_ASSIGNMENT_SINCE:
            response = generation_response(turn.group, new_id, skips_assignment=is_leader)
        else:
            # Older clients assign whenever they lead, so they are told that somebody else does.
            response = replace(generation_response(turn.group, new_id), leader=former_leader, members=())
        turn.reply(self._token, response)

    # Words.

    @property
    def _rebalance_timeout_ms(self) -> int:
        timeout_ms = self._request.rebalance_timeout_ms
        return timeout_ms if timeout_ms >= 0 else self._request.session_timeout_ms

    def _as_it_says_now(self, member: ClassicMember) -> ClassicMember:
        return replace(
            member,
            protocols=self._protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=self._request.session_timeout_ms,
        )

    def _new_id(self, name: str) -> str:
        return f"{name[:_NAME_CHARACTERS_MAX]}-{self._randomness.uuid()}"

    def _refuse(self, code: ErrorCode, *, member_id: str) -> None:
        self._turn.reply(self._token, JoinGroupResponse(error_code=code, member_id=member_id))


def _is_too_long(name: str) -> bool:
    return len(name.encode()) > CLASSIC_STRING_BYTES_MAX
