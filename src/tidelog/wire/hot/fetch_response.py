"""Fetch responses, versions 4 to 18."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.wire.decoder import error_code
from tidelog.wire.encoding import CLASSIC, FLEXIBLE, Encoding
from tidelog.wire.hot.leader_hints import encode_endpoints, encode_leader, endpoints_reader, read_leader
from tidelog.wire.messages.fetch import (
    NO_DIVERGENCE,
    NO_LEADER_HINT,
    NO_SNAPSHOT,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from tidelog.wire.primitives import INT32, Buffer, read_uuid, write_uuid
from tidelog.wire.tagged import read_tag_value, read_tagged_fields, write_tag

_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_PREFERRED_REPLICA_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_ENDPOINTS_FROM: Final = 16

_SESSION: Final = Struct(">hi")  # error code, session id
_PARTITION: Final = Struct(">ihqqq")
_PARTITION_V4: Final = Struct(">ihqq")
_ABORTED: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iq")
_SNAPSHOT: Final = Struct(">qi")
_SMALLEST_TOPIC: Final = 3
_NULL_ABORTED: Final = {False: b"\xff\xff\xff\xff", True: b"\0"}  # by is_flexible

_read_endpoints: Final = endpoints_reader(NodeEndpoint)


def encode_fetch_response(version: int, response: FetchResponse) -> list[Buffer]:
    """The response as pieces, its records among them as they are."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    pieces: list[Buffer] = []
    out = bytearray(INT32.pack(response.throttle_time_ms))
    if version >= _SESSIONS_FROM:
        out += _SESSION.pack(response.error_code, response.session_id)
    encoding.write_length(out, response.responses)
    for topic in response.responses:
        if version >= _TOPIC_IDS_FROM:
            write_uuid(out, topic.topic_id)
        else:
            encoding.write_string(out, topic.topic)
        encoding.write_length(out, topic.partitions)
        for partition in topic.partitions:
            _write_partition_start(version, encoding, out, partition)
            encoding.write_length(out, partition.records)
            if partition.records:
                pieces += (out, partition.records)
                out = bytearray()
            if encoding.is_flexible:
                _write_partition_tags(out, partition)
        out += encoding.no_tags
    if version >= _ENDPOINTS_FROM and response.node_endpoints:
        out.append(1)
        write_tag(out, 0, encode_endpoints(response.node_endpoints, count=len(response.node_endpoints)))
    else:
        out += encoding.no_tags
    pieces.append(out)
    return pieces


def _write_partition_start(version: int, encoding: Encoding, out: bytearray, partition: PartitionData) -> None:
    start = (partition.partition_index, partition.error_code, partition.high_watermark, partition.last_stable_offset)
    if version >= _LOG_START_FROM:
        out += _PARTITION.pack(*start, partition.log_start_offset)
    else:
        out += _PARTITION_V4.pack(*start)
    if partition.aborted_transactions is None:
        out += _NULL_ABORTED[encoding.is_flexible]
    else:
        encoding.write_length(out, partition.aborted_transactions)
        for aborted in partition.aborted_transactions:
            out += _ABORTED.pack(aborted.producer_id, aborted.first_offset)
            out += encoding.no_tags
    if version >= _PREFERRED_REPLICA_FROM:
        out += INT32.pack(partition.preferred_read_replica)


def _write_partition_tags(out: bytearray, partition: PartitionData) -> None:
    divergence, leader, snapshot = partition.diverging_epoch, partition.current_leader, partition.snapshot_id
    if divergence is NO_DIVERGENCE and leader is NO_LEADER_HINT and snapshot is NO_SNAPSHOT:
        out.append(0)
        return
    has_divergence, has_leader = divergence != NO_DIVERGENCE, leader != NO_LEADER_HINT
    has_snapshot = snapshot != NO_SNAPSHOT
    out.append(has_divergence + has_leader + has_snapshot)
    if has_divergence:
        write_tag(out, 0, _EPOCH_END.pack(divergence.epoch, divergence.end_offset) + b"\0")
    if has_leader:
        write_tag(out, 1, encode_leader(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch))
    if has_snapshot:
        write_tag(out, 2, _SNAPSHOT.pack(snapshot.end_offset, snapshot.epoch) + b"\0")


def decode_fetch_response(version: int, data: memoryview) -> tuple[FetchResponse, int]:
    """The response, its records being slices of `data`, and how many bytes it took."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    (throttle_time_ms,) = INT32.unpack_from(data)
    position, code, session_id = 4, 0, 0
    if version >= _SESSIONS_FROM:
        code, session_id = _SESSION.unpack_from(data, position)
        position += _SESSION.size
    count, position = encoding.read_count(data, position, element_size=_SMALLEST_TOPIC)
    topics = []
    for _ in range(count):
        topic, position = _decode_topic(version, encoding, data, position)
        topics.append(topic)
    endpoints: tuple[NodeEndpoint, ...] = ()
    if version >= _ENDPOINTS_FROM:
        tags, position = read_tagged_fields(data, position, below=1)
        if 0 in tags:
            endpoints = read_tag_value(_read_endpoints, tags[0])
    else:
        position = encoding.skip_tags(data, position)
    response = FetchResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code(code),
        session_id=session_id,
        responses=tuple(topics),
        node_endpoints=endpoints,
    )
    return response, position


def _decode_topic(
    version: int, encoding: Encoding, data: memoryview, position: int
) -> tuple[FetchableTopicResponse, int]:
    name, topic_id = "", None
    if version >= _TOPIC_IDS_FROM:
        topic_id, position = read_uuid(data, position)
    else:
        name, position = encoding.read_string(data, position)
    count, position = encoding.read_count(data, position, element_size=_PARTITION_V4.size)
    partitions = []
    for _ in range(count):
        partition, position = _decode_partition(version, encoding, data, position)
        partitions.append(partition)
    topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(partitions))
    return topic, encoding.skip_tags(data, position)


def _decode_partition(version: int, encoding: Encoding, data: memoryview, position: int) -> tuple[PartitionData, int]:
    log_start_offset = preferred_read_replica = -1
    if version >= _LOG_START_FROM:
        index, code, high_watermark, stable, log_start_offset = _PARTITION.unpack_from(data, position)
        position += _PARTITION.size
    else:
        index, code, high_watermark, stable = _PARTITION_V4.unpack_from(data, position)
        position += _PARTITION_V4.size
    aborted, position = _decode_aborted(encoding, data, position)
    if version >= _PREFERRED_REPLICA_FROM:
        (preferred_read_replica,) = INT32.unpack_from(data, position)
        position += 4
    length, start = encoding.read_length(data, position)
    records = None if length < 0 else data[start : start + length]
    divergence, leader, snapshot, position = _decode_partition_tags(encoding, data, start + max(length, 0))
    partition = PartitionData(
        partition_index=index,
        error_code=error_code(code),
        high_watermark=high_watermark,
        last_stable_offset=stable,
        log_start_offset=log_start_offset,
        diverging_epoch=divergence,
        current_leader=leader,
        snapshot_id=snapshot,
        aborted_transactions=aborted,
        preferred_read_replica=preferred_read_replica,
        records=records,
    )
    return partition, position


def _decode_aborted(
    encoding: Encoding, data: memoryview, position: int
) -> tuple[tuple[AbortedTransaction, ...] | None, int]:
    count, position = encoding.read_nullable_count(data, position, element_size=_ABORTED.size)
    if count < 0:
        return None, position
    aborted = []
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(data, position)
        position = encoding.skip_tags(data, position + _ABORTED.size)
        aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=first_offset))
    return tuple(aborted), position


def _decode_partition_tags(
    encoding: Encoding, data: memoryview, position: int
) -> tuple[EpochEndOffset, LeaderIdAndEpoch, SnapshotId, int]:
    divergence, leader, snapshot = NO_DIVERGENCE, NO_LEADER_HINT, NO_SNAPSHOT
    if not encoding.is_flexible:
        return divergence, leader, snapshot, position
    tags, position = read_tagged_fields(data, position, below=3)
    if 0 in tags:
        divergence = read_tag_value(_read_divergence, tags[0])
    if 1 in tags:
        leader_id, leader_epoch = read_tag_value(read_leader, tags[1])
        leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    if 2 in tags:
        snapshot = read_tag_value(_read_snapshot, tags[2])
    return divergence, leader, snapshot, position


def _read_divergence(data: memoryview, position: int) -> tuple[EpochEndOffset, int]:
    epoch, end_offset = _EPOCH_END.unpack_from(data, position)
    return EpochEndOffset(epoch=epoch, end_offset=end_offset), FLEXIBLE.skip_tags(data, position + _EPOCH_END.size)


def _read_snapshot(data: memoryview, position: int) -> tuple[SnapshotId, int]:
    end_offset, epoch = _SNAPSHOT.unpack_from(data, position)
    return SnapshotId(end_offset=end_offset, epoch=epoch), FLEXIBLE.skip_tags(data, position + _SNAPSHOT.size)
