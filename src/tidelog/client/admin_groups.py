"""Looking after groups: which there are, who is in them, where they stand, and moving or removing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from tidelog.client.admin_group_messages import (
    classic_group,
    committing,
    consumer_group,
    deleting,
    fetching_all,
    offsets_in,
)
from tidelog.client.admin_group_values import GroupDescription, GroupListing
from tidelog.client.broker_questions import ask_everywhere
from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ClientConfig
from tidelog.client.coordinators import CoordinatorQuestions
from tidelog.client.errors import RequestRefused, UnsupportedApi
from tidelog.client.groups.offset_commits import GROUPS_FROM, NAMES_UP_TO, Committed
from tidelog.client.visible_records import VisibleRecords, VisibleRecordsQuestions
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest

T = TypeVar("T")

_IS_NOT_A_CONSUMER_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
_DEAD: Final = "Dead"
_REASON: Final = "removed by an administrator"


class GroupAdmin:
    """The part of an admin that looks after groups. Results are per group or partition, none raised, unless said otherwise."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._questions = CoordinatorQuestions(cluster, config, runtime)
        self._visible_records = VisibleRecordsQuestions(cluster, config, runtime)

    async def find_coordinators(self, group_ids: Iterable[str]) -> dict[str, BrokerId | ErrorCode]:
        """The broker that looks after each group."""
        return await self._questions.coordinators.of_each_now(group_ids)

    async def list_groups(self, *, states: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those in these states and of these kinds, sorted; upper and lower case are the same.

        Every broker is asked. Raises RequestRefused, ConnectionLost or BrokersUnreachable rather than leave out the groups of one.
        """
        wanted_states, wanted_kinds = ({one.lower() for one in some} for some in (states, kinds))
        heard = await ask_everywhere(self._cluster, self._config, self._runtime, self._list_at)
        # A group that moved meanwhile is told of twice; its coordinator is who told last.
        return sorted(
            group
            for group in {group.group_id: group for some in heard.values() for group in some}.values()
            if (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_kinds or group.kind.lower() in wanted_kinds)
        )

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | ErrorCode]:
        """Each group with its members, whichever protocol it speaks; GROUP_ID_NOT_FOUND for one that is not there."""
        wanted = tuple(dict.fromkeys(group_ids))
        found: dict[str, GroupDescription | ErrorCode] = dict.fromkeys(wanted, ErrorCode.UNSUPPORTED_VERSION)
        with suppress(UnsupportedApi):  # a cluster before Kafka 4.0 has classic groups only
            found = await self._questions.ask(wanted, self._describe_consumer_groups)
        others = [group_id for group_id in wanted if _is_code_in(found[group_id], _IS_NOT_A_CONSUMER_GROUP)]
        return {**found, **await self._questions.ask(others, self._describe_classic_groups)}

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete groups with all their offsets; NON_EMPTY_GROUP for one that has members."""

        async def ask(node: BrokerId, some: Sequence[str]) -> dict[str, ErrorCode]:
            answer = await self._cluster.request(node, DeleteGroupsRequest(groups_names=tuple(some)))
            return {row.group_id: row.error_code for row in answer.results}

        return await self._questions.ask(dict.fromkeys(group_ids), ask)

    async def committed_offsets(
        self, group_ids: Iterable[str], *, is_stable_only: bool = False
    ) -> dict[str, dict[TopicPartition, Committed] | ErrorCode]:
        """All that each group has committed; with `is_stable_only`, UNSTABLE_OFFSET_COMMIT where a transaction may yet change it."""

        async def ask(node: BrokerId, some: Sequence[str]) -> dict[str, dict[TopicPartition, Committed] | ErrorCode]:
            connection = await self._cluster.connect(node, Lane.CONTROL)
            version = min(connection.version_of(ApiKey.OFFSET_FETCH), NAMES_UP_TO)
            requests = fetching_all(some, version=version, is_stable_only=is_stable_only)
            answers = [await connection.request(request, version=version) for request in requests]
            if version >= GROUPS_FROM:
                rows = [(row.group_id, row.error_code, row.topics) for answer in answers for row in answer.groups]
            else:
                rows = [(one, row.error_code, row.topics) for one, row in zip(some, answers, strict=True)]
            return {one: offsets_in(topics) if code is ErrorCode.NONE else code for one, code, topics in rows}

        return await self._questions.ask(dict.fromkeys(group_ids), ask)

    async def visible_records(
        self, offsets: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, VisibleRecords | ErrorCode]:
        """How many records a reader at read_committed would get from each offset on, which is the lag without markers, aborted and gaps.

        Leaders are asked. UNSUPPORTED_VERSION where one hangs up, as brokers do that are not ours.
        """
        return await self._visible_records.ask(offsets)

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, ErrorCode]:
        """Commit for a group that has no members; UNKNOWN_MEMBER_ID says that it has some."""

        async def ask(node: BrokerId, _some: Sequence[str]) -> dict[str, dict[TopicPartition, ErrorCode] | ErrorCode]:
            connection = await self._cluster.connect(node, Lane.CONTROL)
            version = min(connection.version_of(ApiKey.OFFSET_COMMIT), NAMES_UP_TO)
            answer = await connection.request(committing(group_id, offsets), version=version)
            codes = {
                TopicPartition(topic.name, row.partition_index): row.error_code
                for topic in answer.topics
                for row in topic.partitions
            }
            return {group_id: _whole_or_each(codes)}

        answered = (await self._questions.ask([group_id], ask))[group_id]
        return dict.fromkeys(offsets, answered) if isinstance(answered, ErrorCode) else answered

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Forget what a group committed; GROUP_SUBSCRIBED_TO_TOPIC where a member still reads the topic."""
        wanted = tuple(partitions)

        async def ask(node: BrokerId, _some: Sequence[str]) -> dict[str, dict[TopicPartition, ErrorCode] | ErrorCode]:
            answer = await self._cluster.request(node, deleting(group_id, wanted))
            if answer.error_code is not ErrorCode.NONE:
                return {group_id: answer.error_code}
            codes = {
                TopicPartition(topic.name, row.partition_index): row.error_code
                for topic in answer.topics
                for row in topic.partitions
            }
            return {group_id: _whole_or_each(codes)}

        answered = (await self._questions.ask([group_id], ask))[group_id]
        return dict.fromkeys(wanted, answered) if isinstance(answered, ErrorCode) else answered

    async def remove_members(self, group_id: str, instance_ids: Iterable[str] | None = None) -> dict[str, ErrorCode]:
        """Make static members leave, or with None all members; what became of each, by instance id or else member id.

        Raises RequestRefused if the group as a whole cannot be asked.
        """
        if instance_ids is None:
            described = (await self.describe_groups([group_id]))[group_id]
            if isinstance(described, ErrorCode):
                raise RequestRefused(described, f"group {group_id!r}")
            leaving = tuple(
                MemberIdentity(
                    # A static member goes by its instance, whatever id it has by now.
                    member_id="" if member.instance_id else member.member_id,
                    group_instance_id=member.instance_id,
                    reason=_REASON,
                )
                for member in described.members
            )
        else:
            leaving = tuple(MemberIdentity(member_id="", group_instance_id=one, reason=_REASON) for one in instance_ids)
        return await self._leave(group_id, leaving) if leaving else {}

    async def _leave(self, group_id: str, leaving: tuple[MemberIdentity, ...]) -> dict[str, ErrorCode]:
        async def ask(node: BrokerId, _some: Sequence[str]) -> dict[str, dict[str, ErrorCode] | ErrorCode]:
            answer = await self._cluster.request(node, LeaveGroupRequest(group_id=group_id, members=leaving))
            if answer.error_code is not ErrorCode.NONE:
                return {group_id: answer.error_code}
            return {group_id: {row.group_instance_id or row.member_id: row.error_code for row in answer.members}}

        answered = (await self._questions.ask([group_id], ask))[group_id]
        if isinstance(answered, ErrorCode):
            raise RequestRefused(answered, f"group {group_id!r}")
        return answered

    async def _describe_consumer_groups(
        self, node: BrokerId, some: Sequence[str]
    ) -> dict[str, GroupDescription | ErrorCode]:
        answer = await self._cluster.request(node, ConsumerGroupDescribeRequest(group_ids=tuple(some)))
        return {
            row.group_id: consumer_group(row, node) if row.error_code is ErrorCode.NONE else row.error_code
            for row in answer.groups
        }

    async def _describe_classic_groups(
        self, node: BrokerId, some: Sequence[str]
    ) -> dict[str, GroupDescription | ErrorCode]:
        answer = await self._cluster.request(node, DescribeGroupsRequest(groups=tuple(some)))
        found: dict[str, GroupDescription | ErrorCode] = {}
        for row in answer.groups:
            if row.error_code is not ErrorCode.NONE:
                found[row.group_id] = row.error_code
            elif row.group_state == _DEAD:  # how brokers before Kafka 4.0 say that there is none
                found[row.group_id] = ErrorCode.GROUP_ID_NOT_FOUND
            else:
                found[row.group_id] = classic_group(row, node)
        return found

    async def _list_at(self, node: BrokerId) -> list[GroupListing]:
        answer = await self._cluster.request(node, ListGroupsRequest())
        if answer.error_code is not ErrorCode.NONE:
            raise RequestRefused(answer.error_code, f"broker {node} does not list its groups")
        return [
            GroupListing(row.group_id, row.group_type.lower(), row.group_state, row.protocol_type, node)
            for row in answer.groups
        ]


def _whole_or_each(codes: dict[TopicPartition, ErrorCode]) -> dict[TopicPartition, ErrorCode] | ErrorCode:
    """The codes of partitions, or of all of them the one for which the whole question is repeated elsewhere."""
    moved = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return next((code for code in codes.values() if code in moved), codes)


def _is_code_in(answer: object, codes: frozenset[ErrorCode]) -> bool:
    return isinstance(answer, ErrorCode) and answer in codes
