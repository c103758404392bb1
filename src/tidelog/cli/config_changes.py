"""Whose settings, and what is to become of them; as the command line writes it and as the admin APIs number it."""

from __future__ import annotations

import enum
from typing import NamedTuple


class ResourceKind(enum.IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    """A topic, a broker, or with the empty name all brokers."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name or '(all)'}"


class Operation(enum.IntEnum):
    """What is done to a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One setting's change."""

    operation: Operation
    name: str
    value: str | None = None


def parse_resource(kind: str, name: str) -> Resource:
    """Read `topic NAME` or `broker ID`; `broker default` stands for all brokers. Raises ValueError."""
    if kind == "topic":
        return Resource(ResourceKind.TOPIC, name)
    if name == "default":
        return Resource(ResourceKind.BROKER, "")
    if not (name.isascii() and name.isdigit()):
        raise ValueError(f"{name!r} is no broker; accepted is a broker's number, or default for all of them")
    return Resource(ResourceKind.BROKER, name)
