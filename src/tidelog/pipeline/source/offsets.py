"""Positions of a streaming query: what its checkpoint says, and what the next micro-batch may read. Pure.

Spark writes down where a micro-batch ends and nothing else. Where the first one began it asks again after a crash, and `latest` is
elsewhere by then; so the end of the first micro-batch says, under the key `@since`, where that began. An offset alone does not tell whose
it is: a topic that was deleted and made anew may have grown past it, and so may the one of another cluster. So ids go with them, under
`@topics` and `@cluster`. All else is written as by Spark's own source for Kafka: {"topic": {"partition": offset}}. Spark compares texts,
so their order is always the same.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model import Offset, TopicId, TopicPartition

Positions: TypeAlias = dict[TopicPartition, Offset]
Written: TypeAlias = dict[str, dict[str, object]]

MARK: Final = "@"
"""What a key begins with that is no topic; no topic can have such a name."""

_INITIAL: Final = "@initial"
_SINCE: Final = "@since"
_TOPICS: Final = "@topics"
_CLUSTER: Final = "@cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose offsets these are, as far as brokers tell: older ones of Kafka know no ids."""

    cluster_id: str | None = None
    topic_ids: Mapping[str, TopicId] = field(default_factory=dict)

    def written(self, positions: Iterable[TopicPartition]) -> dict[str, object]:
        """As it goes with positions, about their topics alone."""
        names = sorted({key.topic for key in positions} & self.topic_ids.keys())
        said: dict[str, object] = {}
        if names:
            said[_TOPICS] = {name: _as_text(self.topic_ids[name]) for name in names}
        if self.cluster_id is not None:
            said[_CLUSTER] = self.cluster_id
        return said


_NOT_TOLD: Final = Whose()


def written(positions: Mapping[TopicPartition, Offset]) -> Written:
    """Positions as Spark is told them."""
    topics: Written = {}
    for key in sorted(positions):
        topics.setdefault(key.topic, {})[str(key.index)] = positions[key]
    return topics


def written_initial(positions: Mapping[TopicPartition, Offset], whose: Whose = _NOT_TOLD) -> dict[str, object]:
    """Where a query begins that has no checkpoint, as Spark is told it."""
    return {**written(positions), **whose.written(positions), _INITIAL: {}}


def written_end(
    start: Mapping[str, object],
    positions: Mapping[TopicPartition, Offset],
    began: Mapping[TopicPartition, Offset],
    whose: Whose = _NOT_TOLD,
) -> dict[str, object]:
    """Where the micro-batch ends that begins at `start`: at `start` itself, to the letter, where that is so.

    The first one is never without an end of its own, so that it is done, and its beginning known, even before there is anything to read.
    """
    end = {**written(positions), **whose.written(positions)}
    if _INITIAL in start:
        return {**end, _SINCE: written(began)}
    return dict(start) if positions_in(start) == positions and not made_anew(start, end) else end


def positions_in(offset: Mapping[str, object]) -> Positions:
    """The positions of an offset that Spark hands back, from its memory or from a checkpoint."""
    return {
        TopicPartition(topic, int(index)): position
        for topic, partitions in offset.items()
        if not topic.startswith(MARK) and isinstance(partitions, Mapping)
        for index, position in partitions.items()
    }


def topic_ids_in(offset: Mapping[str, object]) -> dict[str, TopicId]:
    """The ids of the topics whose positions an offset holds, as far as it tells."""
    return {topic: _as_id(text) for topic, text in _told(offset).items()}


def made_anew(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """Topics of the earlier offset that the later one knows under another id, and all of them if it is of another cluster."""
    here, there = before.get(_CLUSTER), after.get(_CLUSTER)
    if here is not None and there is not None and here != there:
        return {key.topic for key in positions_in(before)}
    ids = _told(after)
    return {topic for topic, text in _told(before).items() if ids.get(topic, text) != text}


def start_of(start: Mapping[str, object], end: Mapping[str, object]) -> Positions:
    """Where a micro-batch that ends at `end` begins.

    That is `start`, unless this is the first micro-batch, done once more: then the query would begin elsewhere now than it did. What was
    read of a topic says nothing about another of the same name, which is new.
    """
    since = end.get(_SINCE)
    if isinstance(since, Mapping) and _INITIAL in start:
        return positions_in(since)
    strangers = made_anew(start, end)
    return {key: offset for key, offset in positions_in(start).items() if key.topic not in strangers}


def limited(
    start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], offsets_max: int
) -> Positions:
    """Ends so near that at most `offsets_max` offsets lie before them: each partition gets its share of what there is to read.

    None starves: a partition with something to read gets one offset at least, also where there are more of them than offsets.
    """
    sizes = {key: max(0, offset - start[key]) for key, offset in end.items()}
    total, waiting = sum(sizes.values()), sum(1 for size in sizes.values() if size)
    if total <= offsets_max:
        return dict(end)
    spare = max(0, offsets_max - waiting)
    return {
        key: start[key] + 1 + (sizes[key] - 1) * spare // max(1, total - waiting) if sizes[key] else offset
        for key, offset in end.items()
    }


def count_between(start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> int:
    """How many offsets lie between; a partition that is new begins at its start in `end`'s eyes, offset 0."""
    return sum(max(0, offset - start.get(key, 0)) for key, offset in end.items())


def fell_back(
    start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], keys: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Partitions whose log now ends before what was read of it."""
    return [key for key in keys if key in start and key in end and end[key] < start[key]]


def _told(offset: Mapping[str, object]) -> Mapping[str, str]:
    ids = offset.get(_TOPICS)
    return ids if isinstance(ids, Mapping) else {}


def _as_text(topic_id: TopicId) -> str:
    """As Kafka's tools print it."""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def _as_id(text: str) -> TopicId:
    return UUID(bytes=urlsafe_b64decode(text + "=="))
