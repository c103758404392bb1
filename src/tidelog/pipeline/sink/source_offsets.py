"""Where a micro-batch ends in its sources, as Spark writes it into the checkpoint before the micro-batch runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.model import Offset, TopicPartition
from tidelog.pipeline.sink.errors import CheckpointChanged

_VERSION: Final = "v1"
_FIRST_SOURCE_LINE: Final = 2  # after the version, and Spark's own notes


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsets:
    """The next offsets to read of all topics, and a digest of what all sources, topics or not, say."""

    positions: Mapping[TopicPartition, Offset]
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
    return SourceOffsets(positions=_positions_in(known), digest=digest)


def _positions_in(sources: list[str]) -> dict[TopicPartition, Offset]:
    """Of a partition that two sources read, the one that is further behind."""
    positions: dict[TopicPartition, Offset] = {}
    for line in sources:
        for key, offset in _positions_of(line).items():
            positions[key] = min(offset, positions.get(key, offset))
    return positions


def _positions_of(line: str) -> dict[TopicPartition, Offset]:
    """{"topic": {"partition": offset}}, as our source and Spark's own write it; nothing for what other sources write."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(said, dict):
        return {}
    return {
        TopicPartition(topic, int(index)): offset
        for topic, partitions in said.items()
        if isinstance(partitions, dict) and not topic.startswith("@")
        for index, offset in partitions.items()
        if index.isdecimal() and isinstance(offset, int) and offset >= 0
    }
