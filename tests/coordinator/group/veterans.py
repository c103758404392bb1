"""Members of the classic protocol in a room of readers."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.coordinator.group.consumer_room import GROUP, Room
from tidelog.client.groups.subscription_codec import Subscription, read_assignment, write_subscription
from tidelog.model import ErrorCode, TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

VETERAN_SESSION_MS = 10_000


@dataclass
class Veteran:
    """A cooperative member of the classic protocol, which does not know what kind of group it is in."""

    room: Room
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    owned: list[int] = field(default_factory=list)
    protocol: str = "cooperative-sticky"
    has_synced: bool = True

    def metadata(self) -> bytes:
        owned = tuple(TopicPartition("t", partition) for partition in self.owned)
        return write_subscription(Subscription(topics=("t",), owned=owned, generation=self.generation))

    def join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=VETERAN_SESSION_MS,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=self.protocol, metadata=self.metadata()),),
        )

    def join(self) -> JoinGroupResponse:
        response = self.room.send(self.join_request(), version=9)
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = self.room.send(self.join_request(), version=9)
        assert isinstance(response, JoinGroupResponse)
        if response.error_code is ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.has_synced = False
        return response

    def sync(self, assignments: tuple[SyncGroupRequestAssignment, ...] = ()) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=assignments,
        )
        response = self.room.send(request, version=5)
        assert isinstance(response, SyncGroupResponse)
        return response

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        code = self.room.send(request, version=4).error_code
        assert isinstance(code, ErrorCode)
        return code

    def take_part(self) -> bool:
        """Sync, and take over what it is given. Says whether it had to give something up, and so has to join again."""
        response = self.sync()
        assert response.error_code is ErrorCode.NONE
        given = sorted(partition for _, partition in read_assignment(response.assignment).partitions)
        has_given_up = bool(set(self.owned) - set(given))
        self.owned, self.has_synced = given, True
        return has_given_up

    def rejoin(self) -> None:
        """Join and sync until there is nothing to give up any more, as cooperative members do."""
        for _ in range(3):
            assert self.join().error_code is ErrorCode.NONE
            if not self.take_part():
                return

    def abandon(self) -> None:
        """Let go of everything."""
        self.member_id, self.generation, self.owned = "", -1, []

    def follow(self) -> None:
        """A heartbeat, and what it calls for."""
        if self.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()

    def leave(self) -> LeaveGroupResponse:
        members = (MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id),)
        response = self.room.send(LeaveGroupRequest(group_id=GROUP, members=members), version=5)
        assert isinstance(response, LeaveGroupResponse)
        return response
