"""Records out of lines, files and JSON, read in bounded pieces from anything that can be read."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.cli.shown_record import Headers

RECORD_MAX_BYTES: Final = 64 << 20


class InputRecord(NamedTuple):
    """A record to be sent; what is None is left to the producer, except key and value, where None is null."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Unreadable(ValueError):
    """A piece of the input is not what the options say it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRules:
    """How a piece of input becomes a record."""

    key: bytes | None = None
    key_delimiter: bytes | None = None
    headers: Headers = ()
    empty_is_null: bool = False
    is_json: bool = False

    def record(self, piece: bytes) -> InputRecord:
        """The record a piece of input stands for. Raises Unreadable."""
        if self.is_json:
            return _from_json(piece, self)
        key, value = self.key, piece
        if self.key_delimiter is not None:
            before, delimiter, after = piece.partition(self.key_delimiter)
            if delimiter:
                key, value = before, after
        if not self.empty_is_null:
            return InputRecord(key, value, self.headers)
        return InputRecord(key or None, value or None, self.headers)


class Splitter:
    """Cuts a stream of chunks at a delimiter; holds at most one unfinished record, of at most `max_bytes`."""

    def __init__(self, delimiter: bytes, *, max_bytes: int = RECORD_MAX_BYTES) -> None:
        self._delimiter = delimiter
        self._max_bytes = max_bytes
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The records this chunk completes. Raises Unreadable when a record grows too large."""
        searched = max(0, len(self._rest) - len(self._delimiter) + 1)
        self._rest += chunk
        start = 0
        while (end := self._rest.find(self._delimiter, max(start, searched))) >= 0:
            yield bytes(self._rest[start:end])
            start = end + len(self._delimiter)
        del self._rest[:start]
        if len(self._rest) > self._max_bytes:
            raise Unreadable(f"no delimiter within {self._max_bytes} bytes of input")

    def rest(self) -> bytes | None:
        """What stands after the last delimiter, or None."""
        return bytes(self._rest) or None


def _from_json(piece: bytes, rules: InputRules) -> InputRecord:
    try:
        fields = json.loads(piece)
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}: {piece[:80]!r}") from None
    if not isinstance(fields, dict):
        raise Unreadable(f"not a JSON object: {piece[:80]!r}")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(header, dict) for header in headers):
        raise Unreadable('"headers" wants a list of {"name": ..., "value": ...}')
    return InputRecord(
        key=_json_bytes(fields, "key", default=rules.key),
        value=_json_bytes(fields, "value"),
        headers=rules.headers
        + tuple((str(header.get("name", "")), _json_bytes(header, "value")) for header in headers),
        partition=_json_integer(fields, "partition"),
        timestamp_ms=_json_integer(fields, "timestamp_ms"),
    )


def _json_bytes(fields: dict[str, object], name: str, default: bytes | None = None) -> bytes | None:
    """Text as UTF-8, null as null, numbers, lists and objects as their JSON text; `NAME_base64` as bytes."""
    if (encoded := fields.get(f"{name}_base64")) is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            raise Unreadable(f'"{name}_base64": {error}') from None
    if name not in fields:
        return default
    value = fields[name]
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def _json_integer(fields: dict[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise Unreadable(f'"{name}" is not a number from 0 on: {value!r}')
    return value
