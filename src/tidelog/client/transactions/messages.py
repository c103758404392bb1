"""What is said to the coordinators, and how their answers are read. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.client.groups.group import GroupMetadata
from tidelog.client.groups.offset_commits import Offsets
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.wire.definition import VersionRange
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

VERSION_MAX: Final = 32_767
"""The newest version that a request can have."""

FEATURE: Final = "transaction.version"
"""The feature whose level says which protocol the cluster has agreed on."""

# From these versions on, a request belongs to version 2 of the protocol (KIP-890); below, to the one before.
PRODUCE_OF_TWO: Final = 12
END_OF_TWO: Final = 5
OFFSETS_OF_TWO: Final = 5


def versions_of(first_of_two: int, *, is_version_two: bool) -> VersionRange:
    """The versions in which a request belongs to the protocol."""
    return VersionRange(first_of_two, VERSION_MAX) if is_version_two else VersionRange(0, first_of_two - 1)


ADD_PARTITIONS_VERSIONS: Final = VersionRange(0, 3)
"""Later versions are for brokers."""

_NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def identity_of(producer_id: int, producer_epoch: int) -> ProducerIdentity | None:
    """A pair of an answer, where it has one."""
    identity = ProducerIdentity(producer_id, producer_epoch)
    return None if identity == _NOBODY else identity


def ongoing_of(response: InitProducerIdResponse) -> ProducerIdentity | None:
    """Who wrote the transaction that was kept."""
    return identity_of(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)


def add_partitions_request(
    transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Of one transaction, as clients say it."""
    indexes: dict[str, list[int]] = {}
    for topic_partition in partitions:
        indexes.setdefault(topic_partition.topic, []).append(topic_partition.index)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=name, partitions=tuple(each)) for name, each in indexes.items()
        ),
    )


def added_codes(response: AddPartitionsToTxnResponse) -> list[ErrorCode]:
    """What became of each partition."""
    return [
        row.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    ]


def offsets_request(
    transactional_id: str, producer: ProducerIdentity, offsets: Offsets, group: GroupMetadata
) -> TxnOffsetCommitRequest:
    """Everything in one request, in the name of the member that has consumed it (KIP-447)."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for topic_partition, committed in offsets.items():
        topics.setdefault(topic_partition.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=topic_partition.index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id if group.member_id else None,
        topics=tuple(
            TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()
        ),
    )


def offset_codes(response: TxnOffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """What became of each offset."""
    return {
        TopicPartition(topic.name, row.partition_index): row.error_code
        for topic in response.topics
        for row in topic.partitions
    }
