"""Fetch requests, versions 4 to 18."""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from tidelog.wire.elements import check_elements
from tidelog.wire.encoding import CLASSIC, FLEXIBLE, Encoding
from tidelog.wire.messages.fetch import (
    HIGH_WATERMARK_NOT_TOLD,
    NO_REPLICA,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tidelog.wire.primitives import (
    INT32,
    Buffer,
    read_compact_nullable_string,
    read_uuid,
    write_compact_string,
    write_uuid,
)
from tidelog.wire.tagged import read_tag_value, read_tagged_fields, write_tag

_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12  # and the last fetched epoch
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_DIRECTORY_ID_FROM: Final = 17
_HIGH_WATERMARK_FROM: Final = 18

_LIMITS: Final = Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_SESSION: Final = Struct(">ii")  # id, epoch
_REPLICA_STATE: Final = Struct(">iq")
_INT64: Final = Struct(">q")
_SMALLEST_TOPIC: Final = 3

_PARTITION_V4: Final = Struct(">iqi")  # partition, fetch offset, max bytes
_PARTITION_V5: Final = Struct(">iqqi")  # ... log start offset before max bytes
_PARTITION_V9: Final = Struct(">iiqqi")  # ... current leader epoch after partition
_PARTITION_V12: Final = Struct(">iiqiqi")  # ... last fetched epoch after fetch offset


def decode_fetch_request(version: int, data: memoryview) -> tuple[FetchRequest, int]:
    """The request, and how many bytes it took."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    replica_id, position = -1, 0
    if version < _REPLICA_STATE_FROM:
        (replica_id,) = INT32.unpack_from(data)
        position = 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(data, position)
    position += _LIMITS.size
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(data, position)
        position += _SESSION.size
    topics, position = _decode_topics(version, encoding, data, position)
    forgotten: tuple[ForgottenTopic, ...] = ()
    if version >= _SESSIONS_FROM:
        forgotten, position = _decode_forgotten(version, encoding, data, position)
    rack_id = ""
    if version >= _RACK_FROM:
        rack_id, position = encoding.read_string(data, position)
    cluster_id, replica_state, position = _decode_tags(version, encoding, data, position)
    request = FetchRequest(
        cluster_id=cluster_id,
        replica_id=replica_id,
        replica_state=replica_state,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=rack_id,
    )
    return request, position


def _decode_topics(
    version: int, encoding: Encoding, data: memoryview, position: int
) -> tuple[tuple[FetchTopic, ...], int]:
    count, position = encoding.read_count(data, position, element_size=_SMALLEST_TOPIC)
    check_elements(count)
    elements = count
    topics = []
    for _ in range(count):
        name, topic_id, position = _read_topic(version, encoding, data, position)
        partition_count, position = encoding.read_count(data, position, element_size=_PARTITION_V4.size)
        elements += partition_count
        check_elements(elements)
        partitions = []
        for _ in range(partition_count):
            partition, position = _decode_partition(version, data, position)
            partitions.append(partition)
        position = encoding.skip_tags(data, position)
        topics.append(FetchTopic(topic=name, topic_id=topic_id, partitions=tuple(partitions)))
    return tuple(topics), position


def _decode_partition(version: int, data: memoryview, position: int) -> tuple[FetchPartition, int]:
    leader_epoch = fetched_epoch = log_start = -1
    if version >= _FLEXIBLE_FROM:
        index, leader_epoch, offset, fetched_epoch, log_start, max_bytes = _PARTITION_V12.unpack_from(data, position)
        position += _PARTITION_V12.size
        if data[position] != 0 and version >= _DIRECTORY_ID_FROM:
            directory_id, high_watermark, position = _decode_partition_tags(version, data, position)
            partition = FetchPartition(
                partition=index,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=fetched_epoch,
                log_start_offset=log_start,
                partition_max_bytes=max_bytes,
                replica_directory_id=directory_id,
                high_watermark=high_watermark,
            )
            return partition, position
        position = FLEXIBLE.skip_tags(data, position)
    elif version >= _LEADER_EPOCH_FROM:
        index, leader_epoch, offset, log_start, max_bytes = _PARTITION_V9.unpack_from(data, position)
        position += _PARTITION_V9.size
    elif version >= _LOG_START_FROM:
        index, offset, log_start, max_bytes = _PARTITION_V5.unpack_from(data, position)
        position += _PARTITION_V5.size
    else:
        index, offset, max_bytes = _PARTITION_V4.unpack_from(data, position)
        position += _PARTITION_V4.size
    partition = FetchPartition(
        partition=index,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=fetched_epoch,
        log_start_offset=log_start,
        partition_max_bytes=max_bytes,
    )
    return partition, position


def _decode_partition_tags(version: int, data: memoryview, position: int) -> tuple[UUID | None, int, int]:
    tags, position = read_tagged_fields(data, position, below=2)
    directory_id = read_tag_value(read_uuid, tags[0]) if 0 in tags else None
    high_watermark = HIGH_WATERMARK_NOT_TOLD
    if 1 in tags and version >= _HIGH_WATERMARK_FROM:
        high_watermark = read_tag_value(_read_int64, tags[1])
    return directory_id, high_watermark, position


def _decode_forgotten(
    version: int, encoding: Encoding, data: memoryview, position: int
) -> tuple[tuple[ForgottenTopic, ...], int]:
    count, position = encoding.read_count(data, position, element_size=_SMALLEST_TOPIC)
    check_elements(count)
    elements = count
    topics = []
    for _ in range(count):
        name, topic_id, position = _read_topic(version, encoding, data, position)
        partition_count, position = encoding.read_count(data, position, element_size=4)
        elements += partition_count
        check_elements(elements)
        partitions = Struct(f">{partition_count}i").unpack_from(data, position)
        position = encoding.skip_tags(data, position + 4 * partition_count)
        topics.append(ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions))
    return tuple(topics), position


def _read_topic(version: int, encoding: Encoding, data: memoryview, position: int) -> tuple[str, UUID | None, int]:
    if version >= _TOPIC_IDS_FROM:
        topic_id, position = read_uuid(data, position)
        return "", topic_id, position
    name, position = encoding.read_string(data, position)
    return name, None, position


def _decode_tags(
    version: int, encoding: Encoding, data: memoryview, position: int
) -> tuple[str | None, ReplicaState, int]:
    if not encoding.is_flexible:
        return None, NO_REPLICA, position
    tags, position = read_tagged_fields(data, position, below=2)
    cluster_id = read_tag_value(read_compact_nullable_string, tags[0]) if 0 in tags else None
    has_replica_state = 1 in tags and version >= _REPLICA_STATE_FROM
    replica_state = read_tag_value(_read_replica_state, tags[1]) if has_replica_state else NO_REPLICA
    return cluster_id, replica_state, position


def _read_replica_state(data: memoryview, position: int) -> tuple[ReplicaState, int]:
    replica_id, replica_epoch = _REPLICA_STATE.unpack_from(data, position)
    state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
    return state, FLEXIBLE.skip_tags(data, position + _REPLICA_STATE.size)


def _read_int64(data: memoryview, position: int) -> tuple[int, int]:
    (value,) = _INT64.unpack_from(data, position)
    return value, position + 8


def encode_fetch_request(version: int, request: FetchRequest) -> list[Buffer]:
    """The request as one piece."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    out = bytearray()
    if version < _REPLICA_STATE_FROM:
        out += INT32.pack(request.replica_id)
    out += _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= _SESSIONS_FROM:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    encoding.write_length(out, request.topics)
    for topic in request.topics:
        _write_topic(version, encoding, out, topic)
        encoding.write_length(out, topic.partitions)
        for partition in topic.partitions:
            _write_partition(version, out, partition)
        out += encoding.no_tags
    if version >= _SESSIONS_FROM:
        encoding.write_length(out, request.forgotten_topics_data)
        for forgotten in request.forgotten_topics_data:
            _write_topic(version, encoding, out, forgotten)
            encoding.write_length(out, forgotten.partitions)
            out += Struct(f">{len(forgotten.partitions)}i").pack(*forgotten.partitions)
            out += encoding.no_tags
    if version >= _RACK_FROM:
        encoding.write_string(out, request.rack_id)
    if encoding.is_flexible:
        _write_tags(version, out, request)
    return [out]


def _write_topic(version: int, encoding: Encoding, out: bytearray, topic: FetchTopic | ForgottenTopic) -> None:
    if version >= _TOPIC_IDS_FROM:
        write_uuid(out, topic.topic_id)
    else:
        encoding.write_string(out, topic.topic)


def _write_partition(version: int, out: bytearray, partition: FetchPartition) -> None:
    index, offset, max_bytes = partition.partition, partition.fetch_offset, partition.partition_max_bytes
    leader_epoch, log_start = partition.current_leader_epoch, partition.log_start_offset
    if version >= _FLEXIBLE_FROM:
        fetched_epoch = partition.last_fetched_epoch
        out += _PARTITION_V12.pack(index, leader_epoch, offset, fetched_epoch, log_start, max_bytes)
        _write_partition_tags(version, out, partition)
    elif version >= _LEADER_EPOCH_FROM:
        out += _PARTITION_V9.pack(index, leader_epoch, offset, log_start, max_bytes)
    elif version >= _LOG_START_FROM:
        out += _PARTITION_V5.pack(index, offset, log_start, max_bytes)
    else:
        out += _PARTITION_V4.pack(index, offset, max_bytes)


def _write_partition_tags(version: int, out: bytearray, partition: FetchPartition) -> None:
    has_directory = version >= _DIRECTORY_ID_FROM and partition.replica_directory_id is not None
    has_watermark = version >= _HIGH_WATERMARK_FROM and partition.high_watermark != HIGH_WATERMARK_NOT_TOLD
    out.append(has_directory + has_watermark)
    if has_directory and partition.replica_directory_id is not None:
        write_tag(out, 0, partition.replica_directory_id.bytes)
    if has_watermark:
        write_tag(out, 1, _INT64.pack(partition.high_watermark))


def _write_tags(version: int, out: bytearray, request: FetchRequest) -> None:
    state = request.replica_state
    has_cluster = request.cluster_id is not None
    has_state = version >= _REPLICA_STATE_FROM and state != NO_REPLICA
    out.append(has_cluster + has_state)
    if has_cluster:
        cluster_id = bytearray()
        write_compact_string(cluster_id, request.cluster_id)
        write_tag(out, 0, cluster_id)
    if has_state:
        write_tag(out, 1, _REPLICA_STATE.pack(state.replica_id, state.replica_epoch) + b"\0")
