"""Requests answered with an error that is not theirs, as a broker answers that found it in their first line: nothing is looked at or done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey, Request, Response
from tidelog.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_heartbeat,
    create_topics,
    delete_groups,
    delete_topics,
    describe_groups,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
)

Q = TypeVar("Q", bound=Request[Response])

SESSION_FORGOTTEN: Final = fetch.FetchResponse(
    error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, throttle_time_ms=0, responses=()
)
"""Brings on a fetch that names its partitions, each of which can then have an error of its own."""


def is_incremental(request: object) -> bool:
    """Whether a fetch leaves unsaid which partitions it is about."""
    return isinstance(request, fetch.FetchRequest) and request.session_id != 0 and request.session_epoch > 0


def refused(key: ApiKey, request: object, code: ErrorCode) -> Response | None:
    """The answer to a request of this API; None where the protocol has none to producing without acknowledgement."""
    if isinstance(request, produce.ProduceRequest) and request.acks == 0:
        return None
    return REFUSING[key](request, code)


def _produce(request: produce.ProduceRequest, code: ErrorCode) -> Response:
    return produce.ProduceResponse(
        responses=tuple(
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    produce.PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
                    for each in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )


def _fetch(request: fetch.FetchRequest, code: ErrorCode) -> Response:
    return fetch.FetchResponse(
        throttle_time_ms=0,
        responses=tuple(
            fetch.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=tuple(_nothing(each.partition, code) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _nothing(partition: int, code: ErrorCode) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=partition, error_code=code, high_watermark=-1, aborted_transactions=None, records=None
    )


def _list_offsets(request: list_offsets.ListOffsetsRequest, code: ErrorCode) -> Response:
    return list_offsets.ListOffsetsResponse(
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _offset_for_leader_epoch(request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, code: ErrorCode) -> Response:
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=tuple(
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    offset_for_leader_epoch.EpochEndOffset(error_code=code, partition=each.partition)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _offset_commit(request: offset_commit.OffsetCommitRequest, code: ErrorCode) -> Response:
    return offset_commit.OffsetCommitResponse(
        topics=tuple(
            offset_commit.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    offset_commit.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _txn_offset_commit(request: txn_offset_commit.TxnOffsetCommitRequest, code: ErrorCode) -> Response:
    return txn_offset_commit.TxnOffsetCommitResponse(
        topics=tuple(
            txn_offset_commit.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    txn_offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _offset_fetch(request: offset_fetch.OffsetFetchRequest, code: ErrorCode) -> Response:
    """Of the partitions up to version 1, of all of it up to version 7, of the groups from then on."""
    return offset_fetch.OffsetFetchResponse(
        error_code=code,
        topics=tuple(
            offset_fetch.OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    offset_fetch.OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        ),
        groups=tuple(
            offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=code)
            for group in request.groups
        ),
    )


def _find_coordinator(request: find_coordinator.FindCoordinatorRequest, code: ErrorCode) -> Response:
    return find_coordinator.FindCoordinatorResponse(
        error_code=code,
        coordinators=tuple(find_coordinator.Coordinator(key=key, error_code=code) for key in request.coordinator_keys),
    )


def _add_partitions_to_txn(request: add_partitions_to_txn.AddPartitionsToTxnRequest, code: ErrorCode) -> Response:
    """Of the partitions up to version 3, of all of it from then on."""
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        error_code=code,
        results_by_topic_v3_and_below=tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        ),
    )


def _create_topics(request: create_topics.CreateTopicsRequest, code: ErrorCode) -> Response:
    return create_topics.CreateTopicsResponse(
        topics=tuple(
            create_topics.CreatableTopicResult(name=topic.name, error_code=code, error_message=None)
            for topic in request.topics
        )
    )


def _delete_topics(request: delete_topics.DeleteTopicsRequest, code: ErrorCode) -> Response:
    """By names up to version 5, by names or ids from then on."""
    named = [delete_topics.DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    stated = [
        delete_topics.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code)
        for topic in request.topics
    ]
    return delete_topics.DeleteTopicsResponse(responses=(*named, *stated))


def _describe_groups(request: describe_groups.DescribeGroupsRequest, code: ErrorCode) -> Response:
    return describe_groups.DescribeGroupsResponse(
        groups=tuple(describe_groups.DescribedGroup(group_id=group, error_code=code) for group in request.groups)
    )


def _delete_groups(request: delete_groups.DeleteGroupsRequest, code: ErrorCode) -> Response:
    return delete_groups.DeleteGroupsResponse(
        results=tuple(
            delete_groups.DeletableGroupResult(group_id=group, error_code=code) for group in request.groups_names
        )
    )


def _entry(build: Callable[[Q, ErrorCode], Response]) -> Callable[[object, ErrorCode], Response]:
    return cast("Callable[[object, ErrorCode], Response]", build)


REFUSING: Final[Mapping[ApiKey, Callable[[object, ErrorCode], Response]]] = {
    ApiKey.PRODUCE: _entry(_produce),
    ApiKey.FETCH: _entry(_fetch),
    ApiKey.LIST_OFFSETS: _entry(_list_offsets),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _entry(_offset_for_leader_epoch),
    ApiKey.OFFSET_COMMIT: _entry(_offset_commit),
    ApiKey.OFFSET_FETCH: _entry(_offset_fetch),
    ApiKey.FIND_COORDINATOR: _entry(_find_coordinator),
    ApiKey.JOIN_GROUP: lambda _, code: join_group.JoinGroupResponse(error_code=code, protocol_name="", member_id=""),
    ApiKey.SYNC_GROUP: lambda _, code: sync_group.SyncGroupResponse(error_code=code),
    ApiKey.HEARTBEAT: lambda _, code: heartbeat.HeartbeatResponse(error_code=code),
    ApiKey.LEAVE_GROUP: lambda _, code: leave_group.LeaveGroupResponse(error_code=code),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda _, code: consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
        error_code=code
    ),
    ApiKey.LIST_GROUPS: lambda _, code: list_groups.ListGroupsResponse(error_code=code, groups=()),
    ApiKey.DESCRIBE_GROUPS: _entry(_describe_groups),
    ApiKey.DELETE_GROUPS: _entry(_delete_groups),
    ApiKey.INIT_PRODUCER_ID: lambda _, code: init_producer_id.InitProducerIdResponse(
        error_code=code, producer_epoch=-1
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _entry(_add_partitions_to_txn),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda _, code: add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code),
    ApiKey.TXN_OFFSET_COMMIT: _entry(_txn_offset_commit),
    ApiKey.END_TXN: lambda _, code: end_txn.EndTxnResponse(error_code=code),
    ApiKey.CREATE_TOPICS: _entry(_create_topics),
    ApiKey.DELETE_TOPICS: _entry(_delete_topics),
}
"""The APIs that can be answered so: those of clients that write, read, join and commit, and the commonest of administrators."""
