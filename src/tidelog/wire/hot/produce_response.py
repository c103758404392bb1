"""Produce responses, versions 3 to 13."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.wire.decoder import error_code
from tidelog.wire.encoding import CLASSIC, FLEXIBLE, Encoding
from tidelog.wire.hot.leader_hints import encode_endpoints, encode_leader, endpoints_reader, read_leader
from tidelog.wire.messages.produce import (
    NO_LEADER_HINT,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.primitives import INT32, Buffer, read_uuid, write_uuid
from tidelog.wire.tagged import read_tag_value, read_tagged_fields, write_tag

_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9
_LEADER_HINTS_FROM: Final = 10
_TOPIC_IDS_FROM: Final = 13

_PARTITION: Final = Struct(">ihqqq")
_PARTITION_BEFORE_LOG_START: Final = Struct(">ihqq")
_SMALLEST_TOPIC: Final = 3
_SMALLEST_RECORD_ERROR: Final = 6
_NO_ERRORS: Final = {False: b"\0\0\0\0\xff\xff", True: b"\1\0"}  # by is_flexible: no record errors, no message

_read_endpoints: Final = endpoints_reader(NodeEndpoint)


def encode_produce_response(version: int, response: ProduceResponse) -> list[Buffer]:
    """The response as one piece."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    out = bytearray()
    encoding.write_length(out, response.responses)
    for topic in response.responses:
        if version >= _TOPIC_IDS_FROM:
            write_uuid(out, topic.topic_id)
        else:
            encoding.write_string(out, topic.name)
        encoding.write_length(out, topic.partition_responses)
        for partition in topic.partition_responses:
            _write_partition(version, encoding, out, partition)
        out += encoding.no_tags
    out += INT32.pack(response.throttle_time_ms)
    if version >= _LEADER_HINTS_FROM and response.node_endpoints:
        out.append(1)
        write_tag(out, 0, encode_endpoints(response.node_endpoints, count=len(response.node_endpoints)))
    else:
        out += encoding.no_tags
    return [out]


def _write_partition(version: int, encoding: Encoding, out: bytearray, partition: PartitionProduceResponse) -> None:
    start = (partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms)
    if version >= _LOG_START_FROM:
        out += _PARTITION.pack(*start, partition.log_start_offset)
    else:
        out += _PARTITION_BEFORE_LOG_START.pack(*start)
    if version >= _RECORD_ERRORS_FROM:
        if partition.record_errors or partition.error_message is not None:
            _write_record_errors(encoding, out, partition)
        else:
            out += _NO_ERRORS[encoding.is_flexible]
    leader = partition.current_leader
    if version >= _LEADER_HINTS_FROM and leader is not NO_LEADER_HINT and leader != NO_LEADER_HINT:
        out.append(1)
        write_tag(out, 0, encode_leader(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch))
    else:
        out += encoding.no_tags


def _write_record_errors(encoding: Encoding, out: bytearray, partition: PartitionProduceResponse) -> None:
    encoding.write_length(out, partition.record_errors)
    for error in partition.record_errors:
        out += INT32.pack(error.batch_index)
        encoding.write_string(out, error.batch_index_error_message)
        out += encoding.no_tags
    encoding.write_string(out, partition.error_message)


def decode_produce_response(version: int, data: memoryview) -> tuple[ProduceResponse, int]:
    """The response, and how many bytes it took."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    count, position = encoding.read_count(data, 0, element_size=_SMALLEST_TOPIC)
    topics = []
    for _ in range(count):
        name, topic_id = "", None
        if version >= _TOPIC_IDS_FROM:
            topic_id, position = read_uuid(data, position)
        else:
            name, position = encoding.read_string(data, position)
        partitions, position = _decode_partitions(version, encoding, data, position)
        position = encoding.skip_tags(data, position)
        topics.append(TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=partitions))
    (throttle_time_ms,) = INT32.unpack_from(data, position)
    endpoints: tuple[NodeEndpoint, ...] = ()
    if version >= _LEADER_HINTS_FROM:
        tags, position = read_tagged_fields(data, position + 4, below=1)
        if 0 in tags:
            endpoints = read_tag_value(_read_endpoints, tags[0])
    else:
        position = encoding.skip_tags(data, position + 4)
    response = ProduceResponse(responses=tuple(topics), throttle_time_ms=throttle_time_ms, node_endpoints=endpoints)
    return response, position


def _decode_partitions(
    version: int, encoding: Encoding, data: memoryview, position: int
) -> tuple[tuple[PartitionProduceResponse, ...], int]:
    count, position = encoding.read_count(data, position, element_size=_PARTITION_BEFORE_LOG_START.size)
    partitions = []
    for _ in range(count):
        partition, position = _decode_partition(version, encoding, data, position)
        partitions.append(partition)
    return tuple(partitions), position


def _decode_partition(
    version: int, encoding: Encoding, data: memoryview, position: int
) -> tuple[PartitionProduceResponse, int]:
    log_start_offset = -1
    if version >= _LOG_START_FROM:
        index, code, base_offset, append_time_ms, log_start_offset = _PARTITION.unpack_from(data, position)
        position += _PARTITION.size
    else:
        index, code, base_offset, append_time_ms = _PARTITION_BEFORE_LOG_START.unpack_from(data, position)
        position += _PARTITION_BEFORE_LOG_START.size
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message = None
    if version >= _RECORD_ERRORS_FROM:
        record_errors, position = _decode_record_errors(encoding, data, position)
        error_message, position = encoding.read_nullable_string(data, position)
    leader, position = _decode_leader(version, encoding, data, position)
    partition = PartitionProduceResponse(
        index=index,
        error_code=error_code(code),
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
        record_errors=record_errors,
        error_message=error_message,
        current_leader=leader,
    )
    return partition, position


def _decode_record_errors(
    encoding: Encoding, data: memoryview, position: int
) -> tuple[tuple[BatchIndexAndErrorMessage, ...], int]:
    count, position = encoding.read_count(data, position, element_size=_SMALLEST_RECORD_ERROR)
    errors = []
    for _ in range(count):
        (batch_index,) = INT32.unpack_from(data, position)
        message, position = encoding.read_nullable_string(data, position + 4)
        position = encoding.skip_tags(data, position)
        errors.append(BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message))
    return tuple(errors), position


def _decode_leader(version: int, encoding: Encoding, data: memoryview, position: int) -> tuple[LeaderIdAndEpoch, int]:
    if version < _LEADER_HINTS_FROM:
        return NO_LEADER_HINT, encoding.skip_tags(data, position)
    tags, position = read_tagged_fields(data, position, below=1)
    if 0 not in tags:
        return NO_LEADER_HINT, position
    leader_id, leader_epoch = read_tag_value(read_leader, tags[0])
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch), position
