"""Who leads now and where it is reached: what Produce and Fetch say beside a stale-leader error (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, Protocol, TypeVar

from tidelog.wire.primitives import (
    INT32,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    write_compact_string,
    write_uvarint,
)
from tidelog.wire.tagged import skip_tagged_fields

_LEADER: Final = Struct(">ii")
_SMALLEST_ENDPOINT: Final = 4 + 1 + 4 + 1 + 1

EndpointT = TypeVar("EndpointT", covariant=True)


class Endpoint(Protocol):
    """The endpoint of either API; each has a type of its own."""

    @property
    def node_id(self) -> int:
        """The broker."""
        ...

    @property
    def host(self) -> str:
        """Its host on the listener of the request."""
        ...

    @property
    def port(self) -> int:
        """Its port on the listener of the request."""
        ...

    @property
    def rack(self) -> str | None:
        """Its rack, if it has one."""
        ...


class MakeEndpoint(Protocol[EndpointT]):
    """The constructor of either API's endpoint."""

    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> EndpointT:
        """An endpoint."""
        ...


def encode_leader(*, leader_id: int, leader_epoch: int) -> bytes:
    """The value of a current-leader tag."""
    return _LEADER.pack(leader_id, leader_epoch) + b"\0"


def read_leader(data: memoryview, position: int) -> tuple[tuple[int, int], int]:
    """The leader's id and epoch."""
    leader_id, leader_epoch = _LEADER.unpack_from(data, position)
    return (leader_id, leader_epoch), skip_tagged_fields(data, position + _LEADER.size)


def encode_endpoints(endpoints: Iterable[Endpoint], *, count: int) -> bytearray:
    """The value of a node-endpoints tag."""
    out = bytearray()
    write_uvarint(out, count + 1)
    for endpoint in endpoints:
        out += INT32.pack(endpoint.node_id)
        write_compact_string(out, endpoint.host)
        out += INT32.pack(endpoint.port)
        write_compact_string(out, endpoint.rack)
        out.append(0)
    return out


def endpoints_reader(
    make: MakeEndpoint[EndpointT],
) -> Callable[[memoryview, int], tuple[tuple[EndpointT, ...], int]]:
    """A reader of node endpoints as the type that `make` constructs."""

    def read_endpoints(data: memoryview, position: int) -> tuple[tuple[EndpointT, ...], int]:
        count, position = read_compact_count(data, position, element_size=_SMALLEST_ENDPOINT)
        endpoints = []
        for _ in range(count):
            (node_id,) = INT32.unpack_from(data, position)
            host, position = read_compact_string(data, position + 4)
            (port,) = INT32.unpack_from(data, position)
            rack, position = read_compact_nullable_string(data, position + 4)
            position = skip_tagged_fields(data, position)
            endpoints.append(make(node_id=node_id, host=host, port=port, rack=rack))
        return tuple(endpoints), position

    return read_endpoints
