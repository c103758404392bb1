"""Topics and partitions as arguments: `orders` or `orders:3`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.cli.arguments import checked
from tidelog.cli.failure import CommandFailed
from tidelog.model import TopicPartition

PARTITION_METAVAR: Final = "TOPIC[:PARTITION]"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic, or one partition of it."""

    topic: str
    index: int | None

    def __str__(self) -> str:
        return self.topic if self.index is None else f"{self.topic}:{self.index}"


def add_partitions_argument(parser: argparse.ArgumentParser, text: str) -> None:
    """`-t TOPIC[:PARTITION]`, which may be repeated."""
    parser.add_argument(
        "-t", "--topic", dest="wanted", action="append", default=[], type=checked(parse_wanted),
        metavar=PARTITION_METAVAR, help=f"{text}; may be repeated",
    )  # fmt: skip


def parse_wanted(text: str) -> Wanted:
    """Read `topic` or `topic:partition`. Raises ValueError."""
    topic, colon, index = text.partition(":")
    if not topic or (colon and not (index.isascii() and index.isdigit())):
        raise ValueError(f"{text!r} is not of the form TOPIC or TOPIC:PARTITION")
    return Wanted(topic, int(index) if colon else None)


def topics_of(wanted: Iterable[Wanted]) -> list[str]:
    """The topics named, each once, in order."""
    return list(dict.fromkeys(each.topic for each in wanted))


def chosen(wanted: Iterable[Wanted], counts: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions meant, each once; `counts` says how many each topic has. Raises CommandFailed for one that is not there."""
    found: dict[TopicPartition, None] = {}
    for each in wanted:
        count = counts[each.topic]
        if each.index is not None and each.index >= count:
            raise CommandFailed(f"topic {each.topic!r} has {count} partition(s), no {each.index}")
        indexes = range(count) if each.index is None else [each.index]
        found |= dict.fromkeys(TopicPartition(each.topic, index) for index in indexes)
    return list(found)
