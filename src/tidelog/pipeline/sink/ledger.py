"""What the brokers remember of a sink: the marker of its last micro-batch, and the source offsets of a consumer group.

Both are committed offsets, so that they are part of the transaction that they tell of. The marker lies in a group of its own, under
partition 0 of every topic that the micro-batch wrote to, because offsets are only kept for partitions that exist and go with their topic.
The group of the source offsets has nothing but these, so that its lag is that of the query.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from tidelog.client import Admin, ClientConfig, ClientRuntime, Committed, GroupMetadata, RequestRefused
from tidelog.model import ErrorCode, TopicPartition

_MARKER_PARTITION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Which micro-batch was decided last, by which run of which query."""

    query_id: str
    run_id: str
    micro_batch_id: int
    source_digest: str  # of the source offsets at which the micro-batch ended: a replay has the same
    note: str = ""  # what else a commit mode must find again

    def committed(self) -> Committed:
        """As it is written: the id of the micro-batch that comes next, and the rest as a text."""
        words = asdict(self)
        del words["micro_batch_id"]
        return Committed(self.micro_batch_id + 1, metadata=json.dumps(words))

    @classmethod
    def parse(cls, committed: Committed) -> Marker | None:
        """Read what `committed` wrote; None for what somebody else did."""
        try:
            words = json.loads(committed.metadata)
            return cls(micro_batch_id=committed.offset - 1, **words)
        except (ValueError, TypeError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMarkers:
    """All markers that lie under a sink id, by the topics that they lie at."""

    markers: dict[str, Marker]

    def last_of(self, query_id: str) -> Marker | None:
        """The newest of one query. Those of others, from before a full refresh, do not count."""
        of_query = [marker for marker in self.markers.values() if marker.query_id == query_id]
        return max(of_query, key=lambda marker: marker.micro_batch_id, default=None)

    def with_marker(self, marker: Marker, topics: Iterable[str]) -> FoundMarkers:
        """The same after this marker was committed."""
        return FoundMarkers(markers={**self.markers, **dict.fromkeys(topics, marker)})

    def topics_of(self, marker: Marker) -> list[str]:
        """Where this marker lies."""
        return sorted(topic for topic, each in self.markers.items() if each == marker)


def marker_group(sink_id: str) -> str:
    """The group whose committed offsets are the markers of a sink."""
    return f"{sink_id}-marker"


def as_nobody(group_id: str) -> GroupMetadata:
    """To commit offsets of a group without being a member."""
    return GroupMetadata(group_id, -1, "", None)


def marker_offsets(marker: Marker, topics: Iterable[str]) -> dict[TopicPartition, Committed]:
    """What to commit for the group of markers."""
    return {TopicPartition(topic, _MARKER_PARTITION): marker.committed() for topic in sorted(topics)}


async def read_markers(admin: Admin, config: ClientConfig, runtime: ClientRuntime, sink_id: str) -> FoundMarkers:
    """The markers of a sink, once no transaction is open any more that may move them; for default.api.timeout.ms at most.

    To know for sure whether a micro-batch was decided, take over the transactional id before: else its old owner may yet decide.
    Raises RequestRefused.
    """
    group_id = marker_group(sink_id)
    failures = 0
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    try:
        async with asyncio.timeout(config.default_api_timeout_ms / 1000):
            while True:
                found = (await admin.groups.committed_offsets([group_id], is_stable_only=True))[group_id]
                if not isinstance(found, ErrorCode):
                    return FoundMarkers(markers=_markers_in(found))
                code = found
                if code is ErrorCode.GROUP_ID_NOT_FOUND:
                    return FoundMarkers(markers={})
                if not code.is_retriable:
                    break
                failures += 1
                await asyncio.sleep(config.retry_backoff.delay_ms(failures, runtime.randomness) / 1000)
    except TimeoutError:
        pass
    raise RequestRefused(code, f"the committed offsets of group {group_id!r} cannot be read")


def _markers_in(offsets: dict[TopicPartition, Committed]) -> dict[str, Marker]:
    markers = {key.topic: Marker.parse(committed) for key, committed in offsets.items()}
    return {topic: marker for topic, marker in markers.items() if marker is not None}
