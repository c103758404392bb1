"""Produce requests, versions 3 to 13."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.wire.elements import check_elements
from tidelog.wire.encoding import CLASSIC, FLEXIBLE, Encoding
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.primitives import INT32, Buffer, read_uuid, write_uuid

_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13

_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_SMALLEST_TOPIC: Final = 3  # an empty compact name, no partitions, no tags
_SMALLEST_PARTITION: Final = 6  # an index, null compact records, no tags


def decode_produce_request(version: int, data: memoryview) -> tuple[ProduceRequest, int]:
    """The request, its records being slices of `data`, and how many bytes it took."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    transactional_id, position = encoding.read_nullable_string(data, 0)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(data, position)
    count, position = encoding.read_count(data, position + _ACKS_AND_TIMEOUT.size, element_size=_SMALLEST_TOPIC)
    check_elements(count)
    elements = count
    topics = []
    for _ in range(count):
        name, topic_id = "", None
        if version >= _TOPIC_IDS_FROM:
            topic_id, position = read_uuid(data, position)
        else:
            name, position = encoding.read_string(data, position)
        partitions, position = _decode_partitions(encoding, data, position)
        elements += len(partitions)
        check_elements(elements)
        position = encoding.skip_tags(data, position)
        topics.append(TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions))
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=tuple(topics)
    )
    return request, encoding.skip_tags(data, position)


def _decode_partitions(
    encoding: Encoding, data: memoryview, position: int
) -> tuple[tuple[PartitionProduceData, ...], int]:
    read_length, skip_tags = encoding.read_length, encoding.skip_tags
    count, position = encoding.read_count(data, position, element_size=_SMALLEST_PARTITION)
    check_elements(count)
    partitions = []
    for _ in range(count):
        (index,) = INT32.unpack_from(data, position)
        length, position = read_length(data, position + 4)
        records = None
        if length >= 0:
            records = data[position : position + length]
            position += length
        position = skip_tags(data, position)
        partitions.append(PartitionProduceData(index=index, records=records))
    return tuple(partitions), position


def encode_produce_request(version: int, request: ProduceRequest) -> list[Buffer]:
    """The request as pieces, its records among them as they are."""
    encoding = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    pieces: list[Buffer] = []
    out = bytearray()
    encoding.write_string(out, request.transactional_id)
    out += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    encoding.write_length(out, request.topic_data)
    for topic in request.topic_data:
        if version >= _TOPIC_IDS_FROM:
            write_uuid(out, topic.topic_id)
        else:
            encoding.write_string(out, topic.name)
        encoding.write_length(out, topic.partition_data)
        for partition in topic.partition_data:
            out += INT32.pack(partition.index)
            encoding.write_length(out, partition.records)
            if partition.records:
                pieces += (out, partition.records)
                out = bytearray()
            out += encoding.no_tags
        out += encoding.no_tags
    out += encoding.no_tags
    pieces.append(out)
    return pieces
