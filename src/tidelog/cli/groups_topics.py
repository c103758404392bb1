"""Topics with several partitions as arguments: `orders` or `orders:0,3`."""

from __future__ import annotations

from typing import Final

from tidelog.cli.partition_names import Wanted, parse_wanted

TOPIC_METAVAR: Final = "TOPIC[:PARTITION,...]"


def parse_topic_partitions(text: str) -> list[Wanted]:
    """Read `topic` or `topic:0,3`. Raises ValueError."""
    topic, colon, indexes = text.partition(":")
    try:
        return [parse_wanted(f"{topic}:{index}" if colon else topic) for index in indexes.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not of the form {TOPIC_METAVAR}") from None
