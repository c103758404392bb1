"""The committed offsets of one partition of `__consumer_offsets`, kept as the bytes that were written.

A coordinator that takes over replays up to millions of records before it may serve, and is asked for few of them: a record costs a few
look-ups when it is replayed, and is decoded when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from tidelog.coordinator.group.offsets.keys import RawKey, check_key, check_slot, topic_of
from tidelog.coordinator.group.offsets.pending import PendingOffset, PendingOffsets
from tidelog.coordinator.machine import MalformedRecord, Written
from tidelog.model import NO_PRODUCER_ID, ProducerId


class OffsetTable:
    """By group and slot. Changed by replay only, and in the same way whether the record is old or was just written."""

    def __init__(self, *, on_topic: Callable[[bytes], None] = lambda _: None) -> None:
        """`on_topic` is told the name of a topic when it is new."""
        self._on_topic = on_topic
        self._values: dict[bytes, dict[bytes, bytes]] = {}
        self._names: dict[bytes, str] = {}
        self._topics: dict[bytes, int] = {}
        self._pending = PendingOffsets()

    def replay(self, key: bytes, value: bytes | None, written: Written) -> str | None:
        """Take over a record. The group to which it gave an offset, visible or not; None if it gave none. Raises MalformedRecord."""
        try:
            end = 4 + (key[2] << 8 | key[3])  # all by hand: this is what loading costs
        except IndexError as failure:
            raise MalformedRecord(f"a key of an offset is {key!r}") from failure
        group, slot = key[4:end], key[end:]
        if value is None or written.producer_id != NO_PRODUCER_ID:
            return self._replay_rare(RawKey(group, slot), value, written)
        values = self._values.get(group)
        if values is None:
            values = self._admit(RawKey(group, slot))
        if slot not in values:
            self._count(slot)
        values[slot] = value
        if self._pending.by_group:
            self._pending.overtake(RawKey(group, slot), written.offset)
        return self._names[group]

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool) -> None:
        """A marker: what the producer wrote becomes visible, except where a later record is visible already; or it never was."""
        for key, pending in self._pending.settle(producer_id):
            if is_committed:
                self._show(key, pending)
            self._forget_name(key.group)

    @property
    def topics(self) -> Iterable[bytes]:
        """The names of all topics that offsets were committed for, in the order in which they came; some come twice."""
        return chain(self._topics, self._pending.topics())

    @property
    def groups(self) -> Iterable[str]:
        """The groups with offsets, visible or not, in the order in which they came."""
        return self._names.values()

    def values(self, group_id: str) -> dict[bytes, bytes]:
        """What a group committed, by slot and undecoded. To be read only, and not across replays."""
        return self._values.get(group_id.encode(), {})

    def is_pending(self, group_id: str, slot: bytes) -> bool:
        """Whether an open transaction is about to change this offset."""
        return self._pending.has_slot(group_id.encode(), slot)

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction is about to change any offset of a group."""
        return self._pending.has_group(group_id.encode())

    def slots(self, group_id: str) -> Iterable[bytes]:
        """All offsets of a group that a tombstone could forget: visible ones first, then those that only await their marker."""
        return chain(self.values(group_id), self.only_pending(group_id))

    def only_pending(self, group_id: str) -> Iterable[bytes]:
        """The offsets of a group that nothing is visible of yet."""
        visible = self.values(group_id)
        return (slot for slot in self._pending.slots(group_id.encode()) if slot not in visible)

    def _replay_rare(self, key: RawKey, value: bytes | None, written: Written) -> str | None:
        if value is None:
            self._remove(key)
            return None
        check_key(key)
        self._on_topic(topic_of(key.slot))
        self._pending.hold(written.producer_id, key, PendingOffset(written.offset, value))
        return self._names.setdefault(key.group, key.group.decode())

    def _show(self, key: RawKey, pending: PendingOffset) -> None:
        if pending.value is not None:
            values = self._values.setdefault(key.group, {})
            if key.slot not in values:
                self._count(key.slot)
            values[key.slot] = pending.value
            self._pending.overtake(key, pending.offset)

    def _admit(self, key: RawKey) -> dict[bytes, bytes]:
        check_key(key)
        self._names[key.group] = key.group.decode()
        values = self._values[key.group] = {}
        return values

    def _count(self, slot: bytes) -> None:
        topic = slot[2:-4]
        if topic in self._topics and len(slot) == (slot[0] << 8 | slot[1]) + 6:
            self._topics[topic] += 1
        else:
            check_slot(slot)
            self._topics[topic] = 1
            self._on_topic(topic)

    def _remove(self, key: RawKey) -> None:
        values = self._values.get(key.group)
        if values is not None and values.pop(key.slot, None) is not None:
            topic = topic_of(key.slot)
            self._topics[topic] -= 1
            if not self._topics[topic]:
                del self._topics[topic]
            if not values:
                del self._values[key.group]
        self._pending.forget(key)
        self._forget_name(key.group)

    def _forget_name(self, group: bytes) -> None:
        if group not in self._values and not self._pending.has_group(group):
            self._names.pop(group, None)
