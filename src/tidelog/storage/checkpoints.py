"""The small text files beside the logs, in Kafka's formats.

None of them carries a checksum, so a reader trusts a file only when its version, its count and its last line feed are right; a torn file
fails at least one of these. What to do about a damaged file is the caller's affair: every one has a safe fallback.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition


class DamagedCheckpoint(Exception):
    """The bytes are not what this file may hold; the message says why."""


class EpochStart(NamedTuple):
    """A leader epoch and the offset of its first record."""

    leader_epoch: LeaderEpoch
    start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Whose log directory this is."""

    broker_id: BrokerId | None
    cluster_id: str | None
    directory_id: str | None = None


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """A checkpoint of one offset per partition."""
    return _encode_lines(
        f"{partition.topic} {partition.index} {offset}" for partition, offset in sorted(offsets.items())
    )


def decode_offsets(content: bytes) -> dict[TopicPartition, Offset]:
    """The twin of `encode_offsets`; raises DamagedCheckpoint."""
    offsets: dict[TopicPartition, Offset] = {}
    for line in _decode_lines(content):
        topic, separator, numbers = line.partition(" ")
        if not topic or not separator:
            raise DamagedCheckpoint(f"line {line!r} names no partition")
        index, offset = _numbers(numbers, line)
        offsets[TopicPartition(topic, index)] = offset
    return offsets


def encode_epochs(entries: Sequence[EpochStart]) -> bytes:
    """A checkpoint of a partition's leader epochs."""
    return _encode_lines(f"{entry.leader_epoch} {entry.start_offset}" for entry in entries)


def decode_epochs(content: bytes) -> list[EpochStart]:
    """The twin of `encode_epochs`; raises DamagedCheckpoint, also for epochs or offsets out of order."""
    entries = [EpochStart(*_numbers(line, line)) for line in _decode_lines(content)]
    for before, after in pairwise(entries):
        if after.leader_epoch <= before.leader_epoch or after.start_offset < before.start_offset:
            raise DamagedCheckpoint(f"epoch {after} follows {before}")
    return entries


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    """The file that ties a directory to a topic id."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_partition_metadata(content: bytes) -> TopicId:
    """The twin of `encode_partition_metadata`; raises DamagedCheckpoint."""
    fields = dict(line.split(": ", 1) for line in _text(content).splitlines() if ": " in line)
    if fields.get("version") != "0":
        raise DamagedCheckpoint(f"version {fields.get('version')!r} of the partition metadata is not 0")
    return decode_uuid(fields.get("topic_id", ""))


def encode_uuid(value: UUID) -> str:
    """Kafka's spelling of an id: url-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    """The twin of `encode_uuid`; raises DamagedCheckpoint."""
    try:
        value = UUID(bytes=base64.urlsafe_b64decode(text.strip() + "=="))
    except (binascii.Error, ValueError) as error:
        raise DamagedCheckpoint(f"{text!r} is no id") from error
    if value.int == 0:
        raise DamagedCheckpoint("the zero id names nothing")
    return value


def encode_meta_properties(meta: MetaProperties) -> bytes:
    """`meta.properties` in the format of version 0."""
    fields = {"broker.id": meta.broker_id, "cluster.id": meta.cluster_id, "directory.id": meta.directory_id}
    lines = [f"{name}={value}" for name, value in fields.items() if value is not None]
    return "\n".join(["#", *lines, "version=0", ""]).encode()


def decode_meta_properties(content: bytes) -> MetaProperties:
    """The twin of `encode_meta_properties`; version 1 (KRaft), whose `node.id` is our broker id, is read too. Raises DamagedCheckpoint."""
    lines = (line.strip() for line in _text(content).splitlines())
    fields = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!")))
    if fields.get("version") not in ("0", "1"):
        raise DamagedCheckpoint(f"version {fields.get('version')!r} of meta.properties is neither 0 nor 1")
    broker_id = fields.get("broker.id", fields.get("node.id"))
    try:
        number = None if broker_id is None else int(broker_id)
    except ValueError as error:
        raise DamagedCheckpoint(f"broker id {broker_id!r} is no number") from error
    return MetaProperties(
        broker_id=number, cluster_id=fields.get("cluster.id"), directory_id=fields.get("directory.id")
    )


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """The marker of a clean shutdown, with the broker epoch that ended."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(content: bytes) -> int:
    """The broker epoch in a clean-shutdown marker; -1 where it holds none, as those before Kafka 3.7."""
    try:
        fields = json.loads(content)
    except ValueError:
        return -1
    epoch = fields.get("brokerEpoch") if isinstance(fields, dict) else None
    return epoch if isinstance(epoch, int) else -1


_VERSION: Final = "0"


def _encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def _decode_lines(content: bytes) -> list[str]:
    text = _text(content)
    if not text.endswith("\n"):
        raise DamagedCheckpoint("the last line is cut off")
    lines = text.split("\n")[:-1]
    if len(lines) < 2 or lines[0] != _VERSION:
        raise DamagedCheckpoint(f"version {lines[0]!r} is not {_VERSION}")
    if lines[1] != str(len(lines) - 2):
        raise DamagedCheckpoint(f"{len(lines) - 2} entries where {lines[1]!r} were announced")
    return lines[2:]


def _numbers(text: str, line: str) -> tuple[int, int]:
    words = text.split(" ")
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise DamagedCheckpoint(f"line {line!r} does not end in two numbers")
    return int(words[0]), int(words[1])


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint("not text") from error
