"""Where a micro-batch ends in its sources, as Spark writes it into the checkpoint before the micro-batch runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.model import Offset, TopicPartition
from tidelog.pipeline.sink.errors import CheckpointChanged

_VERSION: Final = "v1"
_FIRST_SOURCE_LINE: Final = 2  # after the version, and Spark's own notes


_CLUSTER: Final = "@cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """The next offsets to read of one source, and the id of its cluster where it tells that."""

    positions: Mapping[TopicPartition, Offset]
    cluster_id: str | None

    def may_be_of(self, cluster_id: str | None) -> bool:
        """Whether the topics may be those of a cluster."""
        return cluster_id is None or self.cluster_id in {None, cluster_id}

    def within(self, ends: Mapping[TopicPartition, Offset]) -> Mapping[TopicPartition, Offset]:
        """What of it is so in a cluster whose logs end there: a source that is beyond one of these ends has not read these logs.

        Partitions whose ends are not known are left out.
        """
        if any(offset > ends.get(key, offset) for key, offset in self.positions.items()):
            return {}
        return {key: offset for key, offset in self.positions.items() if key in ends}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsets:
    """Where all sources that read topics are, and a digest of what all sources, topics or not, say."""

    sources: tuple[SourcePosition, ...]
    digest: str


def read_source_offsets(checkpoint: Path, micro_batch_id: int) -> SourceOffsets:
    """What the checkpoint says of a micro-batch. Raises CheckpointChanged where it says nothing."""
    file = checkpoint / "offsets" / str(micro_batch_id)
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise CheckpointChanged(f"the checkpoint has no offsets of micro-batch {micro_batch_id}: {error}") from None
    sources = lines[_FIRST_SOURCE_LINE:]
    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:32]
    # Spark writes other versions only where a query names its sources, and then in a shape that is not documented.
    known = sources if lines[:1] == [_VERSION] else []
    found = [_source_in(line) for line in known]
    return SourceOffsets(sources=tuple(source for source in found if source.positions), digest=digest)


def merged(positions: Iterable[Mapping[TopicPartition, Offset]]) -> dict[TopicPartition, Offset]:
    """The positions of several sources: of a partition that two of them read, the one that is further behind."""
    both: dict[TopicPartition, Offset] = {}
    for each in positions:
        for key, offset in each.items():
            both[key] = min(offset, both.get(key, offset))
    return both


def _source_in(line: str) -> SourcePosition:
    """{"topic": {"partition": offset}}, as our source and Spark's own write it; no positions for what other sources write.

    Under names that begin with @, which no topic has, ours tells other things.
    """
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        said = {}
    cluster_id = said.get(_CLUSTER)
    positions = {
        TopicPartition(topic, int(index)): offset
        for topic, partitions in said.items()
        if isinstance(partitions, dict) and not topic.startswith("@")
        for index, offset in partitions.items()
        if index.isdecimal() and isinstance(offset, int) and offset >= 0
    }
    return SourcePosition(positions=positions, cluster_id=cluster_id if isinstance(cluster_id, str) else None)
