"""Listeners: `NAME://host:port` as Kafka writes them, and which security protocol each name speaks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config.kinds import Kind, ValueType

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PORT_MAX: Final = 65535

_LISTENER: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_-]+)://(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s\[\]:/,]*)):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True)
class Listener:
    """A name and the address it is bound to or advertised at; an empty host is every interface, port 0 a free port."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the host stands for every interface, which can be bound but not advertised."""
        return self.host in {"", "0.0.0.0", "::"}  # noqa: S104


def parse_listener(text: str) -> Listener:
    """Read one `NAME://host:port`; IPv6 hosts are in brackets. Raises ValueError."""
    found = _LISTENER.fullmatch(text)
    if found is None or int(found["port"]) > PORT_MAX:
        raise ValueError(text)
    return Listener(found["name"].upper(), found["six"] or found["host"] or "", int(found["port"]))


def parse_listeners(text: str) -> tuple[Listener, ...]:
    """Read a comma-separated list of listeners, no two with one name or one fixed address. Raises ValueError."""
    listeners = tuple(parse_listener(part.strip()) for part in text.split(",")) if text.strip() else ()
    fixed = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len({listener.name for listener in listeners}) != len(listeners) or len(set(fixed)) != len(fixed):
        raise ValueError(text)
    return listeners


def _parse_http_listeners(text: str) -> tuple[Listener, ...]:
    listeners = tuple(parse_listener(part.strip()) for part in text.split(",")) if text.strip() else ()
    fixed = [(listener.host, listener.port) for listener in listeners if listener.port]
    if any(listener.name != "HTTP" for listener in listeners) or len(set(fixed)) != len(fixed):
        raise ValueError(text)
    return listeners


def without_controller_listeners(properties: Mapping[str, str]) -> dict[str, str]:
    """Leave out the listeners that a stock file has for the quorum of controllers: there is none, so nobody would call."""
    theirs = {name.strip().upper() for name in properties.get("controller.listener.names", "").split(",")}
    given = dict(properties)
    for setting_name in {"listeners", "advertised.listeners"} & set(given):
        ours = [
            part for part in given[setting_name].split(",") if part.partition("://")[0].strip().upper() not in theirs
        ]
        given[setting_name] = ",".join(ours)
    return given


def _parse_protocol_map(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in text.split(","):
        name, _, protocol = part.strip().partition(":")
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ValueError(text)
        pairs.append((name.upper(), protocol))
    if len(dict(pairs)) != len(pairs):
        raise ValueError(text)
    return tuple(pairs)


LISTENERS: Final[Kind[tuple[Listener, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of NAME://host:port with different names and addresses, IPv6 hosts in brackets",
    parse=parse_listeners,
    render=lambda listeners: ",".join(map(str, listeners)),
)
HTTP_LISTENERS: Final[Kind[tuple[Listener, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of http://host:port with different addresses, IPv6 hosts in brackets",
    parse=_parse_http_listeners,
    render=lambda listeners: ",".join(f"http{str(listener)[len(listener.name) :]}" for listener in listeners),
)
PROTOCOL_MAP: Final[Kind[tuple[tuple[str, str], ...]]] = Kind(
    value_type=ValueType.STRING,
    accepted="a comma-separated list of NAME:PROTOCOL, PROTOCOL being one of " + ", ".join(SECURITY_PROTOCOLS),
    parse=_parse_protocol_map,
    render=lambda pairs: ",".join(f"{name}:{protocol}" for name, protocol in pairs),
)
