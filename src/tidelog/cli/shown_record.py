"""A record on its way to the terminal: kcat's format language, and JSON that survives any bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.cli.arguments import unescape

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class ShownRecord(NamedTuple):
    """Everything a consumer knows about a record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Piece: TypeAlias = Callable[[ShownRecord], bytes]

FORMAT_HELP: Final = r"""format tokens (those of kcat):
  %s %v  value               %S  its length in bytes (-1: null)   %R  the same as 4 bytes, big-endian
  %k     key                 %K  its length in bytes (-1: null)
  %h     headers k=v,k=v     %T  timestamp in milliseconds
  %t     topic               %p  partition      %o  offset        %%  a per cent sign
  \n \r \t \0 \xHH           the usual escapes
"""


class RecordFormat:
    """A parsed format."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = tuple(pieces)

    def __call__(self, record: ShownRecord) -> bytes:
        """The bytes to print for a record."""
        return b"".join([piece(record) for piece in self._pieces])

    @classmethod
    def parse(cls, text: str, *, null: bytes = b"") -> RecordFormat:
        """Read a format; null keys and values are shown as `null`. Raises ValueError on a token that does not exist."""
        pieces: list[Piece] = []
        literal, *tokens = text.replace("%%", "\0").split("%")
        pieces.append(_literal(literal))
        for token in tokens:
            if not token or token[0] not in _TOKENS:
                raise ValueError(
                    f"%{token[:1]} is no format token; there are {' '.join('%' + name for name in _TOKENS)} %%"
                )
            pieces.append(_token(token[0], null))
            pieces.append(_literal(token[1:]))
        return cls(pieces)


def _literal(text: str) -> Piece:
    content = unescape(text.replace("\0", "%"))
    return lambda _record: content


def _token(name: str, null: bytes) -> Piece:
    take = _TOKENS[name]
    return lambda record: null if (taken := take(record)) is None else taken


def _number(value: int) -> bytes:
    return str(value).encode()


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: ShownRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_TOKENS: Final[dict[str, Callable[[ShownRecord], bytes | None]]] = {
    "s": lambda record: record.value,
    "v": lambda record: record.value,
    "S": lambda record: _number(_length(record.value)),
    "R": lambda record: _length(record.value).to_bytes(4, "big", signed=True),
    "k": lambda record: record.key,
    "K": lambda record: _number(_length(record.key)),
    "h": _headers,
    "T": lambda record: _number(record.timestamp_ms),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: _number(record.partition),
    "o": lambda record: _number(record.offset),
}


def to_json(record: ShownRecord) -> bytes:
    """One line of JSON. Bytes that are no UTF-8 stand under `..._base64`, so that `tidelog produce --format json` reads all back."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """One field for bytes: text where they are UTF-8, `..._base64` where not."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
