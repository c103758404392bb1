"""Words to declare the wire types of messages that kio does not have, in the annotations of the messages themselves.

Most messages take their layouts from kio, version by version. The requests of a controller to its brokers left Kafka with ZooKeeper, and
so left kio; ours alone was never in it. Those have one version each, so that the message can be its own schema: fields in the order of
the wire, numbers annotated with their width, `Tagged` where a field is a tagged one. Text, booleans, uuids and error codes need no word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias
from uuid import UUID

from tidelog.model import ErrorCode


@dataclass(frozen=True, slots=True)
class KafkaType:
    """How a number is written."""

    name: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """The field stands in the tagged section under this tag, and only if it differs from its default."""

    tag: int


Int8: TypeAlias = Annotated[int, KafkaType("int8")]
Int16: TypeAlias = Annotated[int, KafkaType("int16")]
Int32: TypeAlias = Annotated[int, KafkaType("int32")]
Int64: TypeAlias = Annotated[int, KafkaType("int64")]

PLAIN_TYPES: Final[dict[object, str]] = {
    bool: "bool",
    str: "string",
    UUID: "uuid",
    ErrorCode: "error_code",
}
"""The Python types that can be written in one way only."""
