"""A room full of consumers of one classic group: says in one word what they do, and remembers what they were told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.coordinator.driving import Driver
from tidelog.coordinator import Machine, Token
from tidelog.coordinator.group.book import GroupBook, TopicView
from tidelog.coordinator.group.classic import ClassicArea, ClassicGroup
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode, TopicId
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5


class NoTopics:
    """A cluster without topics; classic groups do not ask for them."""

    version = 0
    is_whole = False

    def by_name(self, name: str) -> TopicView | None:
        return None

    def id_of(self, name: str) -> TopicId | None:
        view = self.by_name(name)
        return None if view is None else view.topic_id

    def by_id(self, topic_id: TopicId) -> TopicView | None:
        return None

    def names(self) -> list[str]:
        return []


@dataclass(frozen=True, kw_only=True)
class Words:
    """What somebody says when it joins."""

    member_id: str = ""
    instance_id: str | None = None
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"me"),)
    protocol_type: str = "consumer"
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    group_id: str = GROUP

    def request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=said) for name, said in self.protocols),
        )


@dataclass
class Room:
    """The driver of one machine that has nothing but classic groups."""

    settings: GroupSettings = field(default_factory=GroupSettings)

    def __post_init__(self) -> None:
        self.book = GroupBook(NoTopics())
        self.randomness = SimulatedRandomness("room")
        self.driver = Driver(self._make)

    def _make(self) -> Machine:
        self.book = GroupBook(NoTopics())
        return GroupMachine(self.book, [ClassicArea(self.book, self.settings, self.randomness)])

    @property
    def group(self) -> ClassicGroup:
        group = self.book.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state_name

    # Requests, answered at once or not.

    def join(self, *, version: int = JOIN_VERSION, client_id: str = "client", **said: Any) -> Token:
        return self.driver.send(Words(**said).request(), version=version, client_id=client_id)

    def joined(self, *, version: int = JOIN_VERSION, **said: Any) -> JoinGroupResponse:
        response: JoinGroupResponse = self.answer(self.join(version=version, **said))
        return response

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        instance_id: str | None = None,
        names: tuple[str | None, str | None] = (None, None),
        parts: dict[str, bytes] | None = None,
    ) -> Token:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=names[0],
            protocol_name=names[1],
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=other, assignment=part) for other, part in (parts or {}).items()
            ),
        )
        return self.driver.send(request, version=SYNC_VERSION)

    def synced(self, member_id: str, generation: int | None = None, **said: Any) -> SyncGroupResponse:
        response: SyncGroupResponse = self.answer(self.sync(member_id, generation, **said))
        return response

    def beat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        known = self.book.groups.get(GROUP)
        current = known.generation if isinstance(known, ClassicGroup) else 0
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=current if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        code: ErrorCode = self.driver.ask(request, version=HEARTBEAT_VERSION).error_code
        return code

    def leave(self, *members: str | MemberIdentity, version: int = LEAVE_VERSION) -> LeaveGroupResponse:
        identities = tuple(
            member if isinstance(member, MemberIdentity) else MemberIdentity(member_id=member) for member in members
        )
        response: LeaveGroupResponse = self.driver.ask(
            LeaveGroupRequest(group_id=GROUP, members=identities), version=version
        )
        return response

    # What happens then.

    def answer(self, token: Token) -> Any:
        return self.driver.answer(token)

    def is_parked(self, token: Token) -> bool:
        return self.driver.is_parked(token)

    def wait_ms(self, duration_ms: float) -> None:
        self.driver.wait_ms(duration_ms)

    @property
    def next_ring_ms(self) -> float:
        """How long nothing happens by itself."""
        return min(self.driver.timers.values()) - self.driver.monotonic_ms

    def wait_alive_ms(self, duration_ms: float, *member_ids: str) -> None:
        """Time passes while some send heartbeats."""
        for _ in range(int(duration_ms // 1_000)):
            self.wait_ms(1_000)
            for member_id in member_ids:
                self.beat(member_id)

    def wait_for_generation(self) -> None:
        """Let time pass until the join phase is over, and no longer, so that no session ends."""
        while self.state == "PreparingRebalance":
            self.wait_ms(1_000)

    # Short cuts.

    def new_id(self, **said: Any) -> str:
        """The id that a dynamic member is given."""
        response = self.joined(**said)
        assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def park(self, **said: Any) -> tuple[str, Token]:
        """Somebody new joins, and waits."""
        if said.get("instance_id") is not None:
            token = self.join(**said)
            return list(self.group.members.by_id)[-1], token
        member_id = self.new_id(**said)
        return member_id, self.join(**{**said, "member_id": member_id})

    def complete(self, tokens: dict[str, Token]) -> dict[str, JoinGroupResponse]:
        """What all of them were told about the new generation."""
        return {member_id: self.answer(token) for member_id, token in tokens.items()}

    def completing(self, count: int = 2, *, instances: tuple[str, ...] = (), **said: Any) -> list[str]:
        """A group that waits for its leader, who comes first; static members come after the dynamic ones."""
        tokens = dict(self.park(**said) for _ in range(count))
        tokens |= dict(self.park(instance_id=instance, **said) for instance in instances)
        self.wait_for_generation()
        assert all(answer.error_code is ErrorCode.NONE for answer in self.complete(tokens).values())
        assert self.group.leader is not None
        return [self.group.leader, *(member_id for member_id in tokens if member_id != self.group.leader)]

    def stable(self, count: int = 2, *, instances: tuple[str, ...] = (), **said: Any) -> list[str]:
        """A group in which everybody has something to do, the leader first."""
        ids = self.completing(count, instances=instances, **said)
        self.share_out(ids)
        return ids

    def share_out(self, ids: list[str]) -> dict[str, bytes]:
        """Everybody syncs, the leader last. What each was given."""
        parts = {member_id: b"part of " + member_id.encode() for member_id in ids}
        leader = self.group.leader
        assert leader is not None
        tokens = {member_id: self.sync(member_id) for member_id in ids if member_id != leader}
        tokens[leader] = self.sync(leader, parts=parts)
        return {member_id: self.answer(token).assignment for member_id, token in tokens.items()}

    def rejoin(self, *ids: str) -> dict[str, Token]:
        """Members join again with the words they had."""
        tokens: dict[str, Token] = {}
        for member_id in ids:
            member = self.group.members[member_id]
            tokens[member_id] = self.join(
                member_id=member_id,
                instance_id=member.instance_id,
                protocols=tuple((name, said) for name, said in member.protocols),
                session_ms=member.session_timeout_ms,
                rebalance_ms=member.rebalance_timeout_ms,
            )
        return tokens
