"""What a consumer group knows of topics: a hash that changes whenever its target has to be computed anew.

Kafka 4.1 hashes the same things in the same order (with another function, XXH3, which Python does not have): a coordinator that finds the
hash of another implementation in a record computes the target once more, and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct

from tidelog.coordinator.group.book import Topics, TopicView

_INT32 = Struct(">i")
_MAGIC = b"\x00"  # of the way in which topics are hashed


class TopicHashes:
    """Remembers the hash of each topic until the topic changes."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._version: int | None = None
        self._known: dict[str, tuple[TopicView, bytes]] = {}

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Of all topics among these that exist; 0 if none does."""
        if self._topics.version != self._version:
            self._forget_what_changed()
        hashes = [self._of(view) for name in sorted(names) if (view := self._topics.by_name(name)) is not None]
        return _number(b"".join(hashes)) if hashes else 0

    def _of(self, view: TopicView) -> bytes:
        known = self._known.get(view.name)
        if known is None:
            known = self._known[view.name] = (view, topic_hash(view))
        return known[1]

    def _forget_what_changed(self) -> None:
        for name, (view, _) in list(self._known.items()):
            if self._topics.by_name(name) != view:
                del self._known[name]
        self._version = self._topics.version


def topic_hash(view: TopicView) -> bytes:
    """Its id, name, number of partitions, and the racks of each."""
    hashed = blake2b(_MAGIC + view.topic_id.bytes, digest_size=8)
    hashed.update(_text(view.name) + _INT32.pack(view.partition_count))
    for partition, racks in enumerate(view.racks):
        hashed.update(_INT32.pack(partition) + b"".join(_text(rack) for rack in sorted(racks)))
    return hashed.digest()


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT32.pack(len(encoded)) + encoded


def _number(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)
