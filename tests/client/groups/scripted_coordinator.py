"""A coordinator that does as the test says: one member, which gets everything, on any of the scripted brokers."""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.client.scripted_brokers import ScriptedBrokers
from tidelog.client.groups.subscription_codec import MemberAssignment, write_assignment
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.wire.api import ApiKey, Response
from tidelog.wire.messages import find_coordinator, heartbeat, join_group, leave_group, offset_commit, offset_fetch
from tidelog.wire.messages import sync_group as sync

T0 = TopicPartition("t", 0)


class ScriptedCoordinator:
    """`refusals` of an API are given one by one before it answers as usual; `committed` is what it remembers."""

    def __init__(self, brokers: ScriptedBrokers, node: BrokerId) -> None:
        self.node = node
        self.generation = 1
        self.committed: dict[TopicPartition, tuple[int, int]] = {}
        self.refusals: dict[ApiKey, deque[ErrorCode]] = {}
        self.group_code = ErrorCode.NONE  # of every OffsetFetch
        self.assigned: tuple[TopicPartition, ...] = (T0,)
        brokers.scripts |= {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.JOIN_GROUP: self._checked(ApiKey.JOIN_GROUP, self._join),
            ApiKey.SYNC_GROUP: self._checked(ApiKey.SYNC_GROUP, self._sync),
            ApiKey.HEARTBEAT: self._checked(ApiKey.HEARTBEAT, self._heartbeat),
            ApiKey.LEAVE_GROUP: self._checked(ApiKey.LEAVE_GROUP, self._leave),
            ApiKey.OFFSET_COMMIT: self._checked(ApiKey.OFFSET_COMMIT, self._commit),
            ApiKey.OFFSET_FETCH: self._checked(ApiKey.OFFSET_FETCH, self._fetch),
        }

    def refuse(self, key: ApiKey, *codes: ErrorCode) -> None:
        """Answer the next requests so."""
        self.refusals.setdefault(key, deque()).extend(codes)

    def _checked(self, key: ApiKey, answer: Any) -> Any:
        def script(node: BrokerId, request: Any) -> Response:
            waiting = self.refusals.get(key)
            code = waiting.popleft() if waiting else ErrorCode.NONE
            if code is ErrorCode.NONE and node != self.node:
                code = ErrorCode.NOT_COORDINATOR
            answered: Response = answer(request, code)
            return answered

        return script

    def _find(self, node: BrokerId, request: find_coordinator.FindCoordinatorRequest) -> Response:
        row = find_coordinator.Coordinator(key="g", node_id=self.node, host=f"broker-{self.node}", port=9092)
        return find_coordinator.FindCoordinatorResponse(coordinators=(row,))

    def _join(self, request: join_group.JoinGroupRequest, code: ErrorCode) -> Response:
        if code is ErrorCode.NONE and not request.member_id:
            return join_group.JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
        return join_group.JoinGroupResponse(
            error_code=code,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader="other",
            member_id=request.member_id,
        )

    def _sync(self, request: sync.SyncGroupRequest, code: ErrorCode) -> Response:
        data = write_assignment(MemberAssignment(partitions=self.assigned))
        return sync.SyncGroupResponse(error_code=code, assignment=b"" if code else data)

    def _heartbeat(self, request: heartbeat.HeartbeatRequest, code: ErrorCode) -> Response:
        return heartbeat.HeartbeatResponse(error_code=code)

    def _leave(self, request: leave_group.LeaveGroupRequest, code: ErrorCode) -> Response:
        return leave_group.LeaveGroupResponse(error_code=code)

    def _commit(self, request: offset_commit.OffsetCommitRequest, code: ErrorCode) -> Response:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                if code is ErrorCode.NONE:
                    key = TopicPartition(topic.name, row.partition_index)
                    self.committed[key] = (row.committed_offset, row.committed_leader_epoch)
                rows.append(
                    offset_commit.OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                )
            topics.append(offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=tuple(rows)))
        return offset_commit.OffsetCommitResponse(topics=tuple(topics))

    def _fetch(self, request: offset_fetch.OffsetFetchRequest, code: ErrorCode) -> Response:
        topics = []
        group_code = code if code is ErrorCode.NOT_COORDINATOR else self.group_code
        for topic in request.groups[0].topics or ():
            rows = []
            for index in topic.partition_indexes:
                offset, epoch = self.committed.get(TopicPartition(topic.name, index), (-1, -1))
                rows.append(
                    offset_fetch.OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=-1 if code else offset,
                        committed_leader_epoch=epoch,
                        metadata="",
                        error_code=ErrorCode.NONE if group_code else code,
                    )
                )
            topics.append(offset_fetch.OffsetFetchResponseTopics(name=topic.name, partitions=tuple(rows)))
        row = offset_fetch.OffsetFetchResponseGroup(
            group_id="g", topics=() if group_code else tuple(topics), error_code=group_code
        )
        return offset_fetch.OffsetFetchResponse(groups=(row,))
