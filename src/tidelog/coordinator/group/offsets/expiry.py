"""Which offsets are kept no longer (KIP-211), and which groups are gone with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tidelog.coordinator.group.book import Group, GroupBook, GroupKind, Topics, TopicView
from tidelog.coordinator.group.offsets.fetches import read_or_none
from tidelog.coordinator.group.offsets.keys import tombstone, topic_of
from tidelog.coordinator.group.offsets.sweep import IsGone, Judge
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.group.offsets.tombstones import group_tombstones
from tidelog.coordinator.group.records import CommittedOffset
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.model import NO_TIMESTAMP, TimestampMs

_CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_Since: TypeAlias = Callable[[CommittedOffset], TimestampMs]


def expiry_judge(book: GroupBook, table: OffsetTable, *, retention_ms: int, now_ms: TimestampMs) -> Judge:
    """Judges by age."""

    def of_group(group_id: str) -> IsGone | None:
        group = book.groups.get(group_id)
        since = None if group is None else counted_from(group)
        if group is None or since is None:
            return None
        is_subscribed = _remembered(group.is_subscribed_to)

        def is_gone(slot: bytes, value: bytes) -> bool:
            committed = read_or_none(value)
            return (
                committed is not None
                and _is_over(committed, since(committed), retention_ms, now_ms)
                and not is_subscribed(topic_of(slot).decode())
                and not table.is_pending(group_id, slot)
            )

        return is_gone

    def at_end(group_id: str, kept: int) -> Iterable[CoordinatorRecord]:
        group = book.groups.get(group_id)
        is_gone = group is not None and group.is_empty and not kept and not table.has_pending(group_id)
        return group_tombstones(group) if group is not None and is_gone else ()

    return Judge(of_group, at_end)


def topics_judge(table: OffsetTable, topics: frozenset[bytes], now: Topics) -> Judge:
    """Offsets of topics that were deleted are gone, whoever committed them, in a transaction or not. Groups stay.

    Where a topic of the same name is there by now, what is known to have been committed for it stays.
    """

    def is_gone(slot: bytes, value: bytes) -> bool:
        topic = topic_of(slot)
        if topic not in topics:
            return False
        committed = read_or_none(value)
        if committed is None or committed.topic_id is None:
            return True
        view = now.by_name(topic.decode())
        return view is None or view.topic_id != committed.topic_id

    def at_end(group_id: str, _: int) -> Iterable[CoordinatorRecord]:
        group = group_id.encode()
        return [tombstone(group, slot) for slot in table.only_pending(group_id) if topic_of(slot) in topics]

    return Judge(lambda _: is_gone, at_end)


def lost_judge(table: OffsetTable, now: Topics) -> Judge:
    """Offsets of topics that are not there are gone, and those that are known to be of another topic of the same name. Groups stay.

    Only for whoever knows all topics there were when the last of these offsets was committed elsewhere.
    """
    views: dict[bytes, TopicView | None] = {}

    def view_of(topic: bytes) -> TopicView | None:
        if topic not in views:
            views[topic] = now.by_name(topic.decode())
        return views[topic]

    def is_gone(slot: bytes, value: bytes) -> bool:
        view = view_of(topic_of(slot))
        if view is None:
            return True
        committed = read_or_none(value)
        return committed is not None and committed.topic_id not in (None, view.topic_id)

    def at_end(group_id: str, _: int) -> Iterable[CoordinatorRecord]:
        group = group_id.encode()
        return [tombstone(group, slot) for slot in table.only_pending(group_id) if view_of(topic_of(slot)) is None]

    return Judge(lambda _: is_gone, at_end)


def counted_from(group: Group) -> _Since | None:
    """From when the age of a group's offsets counts; None if none of them is too old, whatever its age.

    While members read, their offsets stay; and an empty group keeps all of them until it was empty for long enough. Whoever commits without
    being in a group, and whoever speaks the consumer protocol, keeps each offset for as long after its last commit.
    """
    if group.kind is GroupKind.CONSUMER or not group.protocol_type:
        return _commit_time
    if group.is_empty:
        empty_since_ms = group.empty_since_ms
        return _commit_time if empty_since_ms is None else lambda _: empty_since_ms
    if group.protocol_type == _CONSUMER_PROTOCOL_TYPE and group.state_name == "Stable":
        return _commit_time
    return None


def _commit_time(committed: CommittedOffset) -> TimestampMs:
    return committed.commit_ms


def _is_over(committed: CommittedOffset, since_ms: TimestampMs, retention_ms: int, now_ms: TimestampMs) -> bool:
    if committed.expire_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_ms
    return now_ms - since_ms >= retention_ms


def _remembered(is_subscribed: Callable[[str], bool]) -> Callable[[str], bool]:
    """Asks once per topic: the answer takes decoding what every member said."""
    known: dict[str, bool] = {}

    def ask(topic: str) -> bool:
        if topic not in known:
            known[topic] = is_subscribed(topic)
        return known[topic]

    return ask
