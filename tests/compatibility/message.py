"""The records every client is asked to send and to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BASE_TIMESTAMP_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """What all clients can say about a record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def messages() -> list[Message]:
    """Nulls, emptiness, headers (also repeated ones) and a body that compresses."""
    plain = [Message(b"k%d" % n, b"value %d " % n * 50, (), BASE_TIMESTAMP_MS + n) for n in range(50)]
    odd = [
        Message(None, b"no key", (), BASE_TIMESTAMP_MS + 50),
        Message(b"tombstone", None, (), BASE_TIMESTAMP_MS + 51),
        Message(b"", b"", (), BASE_TIMESTAMP_MS + 52),
        Message(b"h", b"headers", (("a", b"1"), ("a", b"2"), ("utf-8 \N{SNOWMAN}", b"")), BASE_TIMESTAMP_MS + 53),
    ]
    return plain + odd
