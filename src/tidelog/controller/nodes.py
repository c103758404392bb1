"""What lies in a node of the registry: a JSON object whose fields are asked for with their types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from tidelog.registry import Node

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class MalformedNode(Exception):
    """A node holds something that neither Kafka nor we have written; starting on it would be guessing."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"registry node {path}: {reason}")
        self.path = path
        self.reason = reason


class Reader:
    """The fields of a node's JSON object, each asked for with its type."""

    def __init__(self, path: str, node: Node) -> None:
        self._path = path
        try:
            content: Json = json.loads(node.data)
        except ValueError:
            raise MalformedNode(path, "the content is no JSON") from None
        if not isinstance(content, dict):
            raise MalformedNode(path, "the content is no JSON object")
        self.content = content

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.content.get(name) is not None

    def value(self, name: str) -> Json:
        """The field, whatever it is. This and the following raise MalformedNode."""
        if name not in self.content:
            raise MalformedNode(self._path, f"field {name} is missing")
        return self.content[name]

    def integer(self, name: str) -> int:
        """A whole number."""
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MalformedNode(self._path, f"field {name} is no whole number")
        return value

    def text(self, name: str) -> str:
        """A text."""
        value = self.value(name)
        if not isinstance(value, str):
            raise MalformedNode(self._path, f"field {name} is no text")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        value = self.value(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise MalformedNode(self._path, f"field {name} is no list of texts")
        return [str(one) for one in value]

    def mapping(self, name: str) -> dict[str, Json]:
        """An object."""
        value = self.value(name)
        if not isinstance(value, dict):
            raise MalformedNode(self._path, f"field {name} is no object")
        return value


def integers(path: str, value: Json) -> tuple[int, ...]:
    """A list of broker ids."""
    if not isinstance(value, list):
        raise MalformedNode(path, "a list of broker ids is missing")
    brokers = tuple(one for one in value if isinstance(one, int) and not isinstance(one, bool))
    if len(brokers) != len(value):
        raise MalformedNode(path, "a broker id is no whole number")
    return brokers


def index_of(path: str, text: str) -> int:
    """The number of a partition."""
    if not (text.isascii() and text.isdecimal()):
        raise MalformedNode(path, f"{text!r} is no partition")
    return int(text)


def encode(content: Mapping[str, Json]) -> bytes:
    """The bytes of an object."""
    return json.dumps(content, separators=(",", ":")).encode()
