"""Offsets committed in transactions that are still open: invisible, but whoever wants stable offsets has to wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.coordinator.group.offsets.keys import RawKey, topic_of
from tidelog.model import Offset, ProducerId


class PendingOffset(NamedTuple):
    """A value that awaits its marker, and where its record lies. None: a later record of the same key took its place already."""

    offset: Offset
    value: bytes | None


class PendingOffsets:
    """By group and slot, and by producer. At most one per key and producer: its last."""

    def __init__(self) -> None:
        self.by_group: dict[bytes, dict[bytes, dict[ProducerId, PendingOffset]]] = {}
        self._keys: dict[ProducerId, dict[RawKey, None]] = {}

    def hold(self, producer_id: ProducerId, key: RawKey, pending: PendingOffset) -> None:
        """A record of an open transaction."""
        self.by_group.setdefault(key.group, {}).setdefault(key.slot, {})[producer_id] = pending
        self._keys.setdefault(producer_id, {})[key] = None

    def overtake(self, key: RawKey, offset: Offset) -> None:
        """What became visible at `offset` stays visible, even if transactions that wrote before are committed after it."""
        rivals = self.by_group.get(key.group, {}).get(key.slot)
        if rivals is None:
            return
        for producer_id, rival in rivals.items():
            if rival.offset < offset:
                rivals[producer_id] = rival._replace(value=None)

    def forget(self, key: RawKey) -> None:
        """A tombstone: no transaction that wrote before it brings the offset back."""
        for producer_id in list(self.by_group.get(key.group, {}).get(key.slot, ())):
            self._drop(producer_id, key)

    def settle(self, producer_id: ProducerId) -> Iterator[tuple[RawKey, PendingOffset]]:
        """The transaction of a producer has ended: take out what it wrote, one by one."""
        for key in list(self._keys.get(producer_id, ())):
            yield key, self._drop(producer_id, key)

    def has_group(self, group: bytes) -> bool:
        """Whether any transaction is open that commits offsets of the group."""
        return group in self.by_group

    def has_slot(self, group: bytes, slot: bytes) -> bool:
        """Whether one is open that commits this offset."""
        return slot in self.by_group.get(group, ())

    def slots(self, group: bytes) -> list[bytes]:
        """All slots of a group that await a marker."""
        return list(self.by_group.get(group, ()))

    def topics(self) -> Iterator[bytes]:
        """The topics of all slots, one by one."""
        return (topic_of(slot) for by_slot in self.by_group.values() for slot in by_slot)

    def _drop(self, producer_id: ProducerId, key: RawKey) -> PendingOffset:
        by_slot = self.by_group[key.group]
        pending = by_slot[key.slot].pop(producer_id)
        if not by_slot[key.slot]:
            del by_slot[key.slot]
        if not by_slot:
            del self.by_group[key.group]
        keys = self._keys[producer_id]
        del keys[key]
        if not keys:
            del self._keys[producer_id]
        return pending
