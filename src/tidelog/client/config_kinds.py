"""What the text of a client's setting may be, where `tidelog.config.kinds` has no kind for it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeVar

from tidelog.config import ValueType
from tidelog.config.kinds import Kind
from tidelog.model import Acks, IsolationLevel
from tidelog.records.compression import Codec
from tidelog.runtime import Address

T = TypeVar("T")


class GroupProtocol(enum.Enum):
    """How the members of a group are told what to read."""

    CLASSIC = "classic"  # one member assigns for all
    CONSUMER = "consumer"  # the coordinator does (KIP-848)


ASSIGNOR_NAMES: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
_JAVA_ASSIGNORS: Final = {
    f"org.apache.kafka.clients.consumer.{java}": name
    for java, name in zip(
        ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"),
        ASSIGNOR_NAMES,
        strict=True,
    )
}


class OffsetReset(enum.Enum):
    """Where a consumer goes that has no position, or one that is not in the log."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


def _named(accepted: Mapping[str, T]) -> Kind[T]:
    """One word of a table, in any case."""
    words = {value: word for word, value in reversed(list(accepted.items()))}

    def parse(text: str) -> T:
        if text.lower() not in accepted:
            raise ValueError(text)
        return accepted[text.lower()]

    return Kind(
        value_type=ValueType.STRING,
        accepted="one of " + ", ".join(accepted),
        parse=parse,
        render=lambda value: words[value],
    )


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read `host:port,[v6]:port,...`; raises ValueError."""
    return tuple(_parse_address(part.strip()) for part in text.split(",") if part.strip())


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(text)
    return Address(host, int(port))


ADDRESSES: Final[Kind[tuple[Address, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of host:port",
    parse=parse_addresses,
    render=lambda addresses: ",".join(map(str, addresses)),
)


def _parse_assignors(text: str) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",")]
    names = tuple(_JAVA_ASSIGNORS.get(word, word) for word in words)
    if len(set(names)) != len(names) or not set(names) <= set(ASSIGNOR_NAMES):
        raise ValueError(text)
    return names


ASSIGNORS: Final[Kind[tuple[str, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of " + ", ".join(ASSIGNOR_NAMES) + ", or the names of Java's classes for them",
    parse=_parse_assignors,
    render=",".join,
)
GROUP_PROTOCOL: Final = _named({protocol.value: protocol for protocol in GroupProtocol})
ACKS: Final = _named({"all": Acks.ALL, "-1": Acks.ALL, "0": Acks.NONE, "1": Acks.LEADER})
CODEC: Final = _named({codec.name.lower(): codec for codec in Codec})
RESET: Final = _named({reset.value: reset for reset in OffsetReset})
ISOLATION: Final = _named({level.name.lower(): level for level in IsolationLevel})
