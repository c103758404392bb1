"""The options of the format "tidelog-segments"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.segments.planning import TASK_BYTES_MAX

DIRECTORIES: Final = "dir"
TOPICS: Final = "topic"
PARTITIONS: Final = "partition"
TASK_BYTES: Final = "maxBytesPerTask"
_NAMES: Final = (DIRECTORIES, TOPICS, PARTITIONS, TASK_BYTES)
_TASK_BYTES_LEAST: Final = 1 << 16
_NUMBER: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsOptions:
    """What to read. No topics, or no partitions, are all of them."""

    directories: tuple[str, ...]
    topics: tuple[str, ...] | None
    partitions: frozenset[int] | None
    task_bytes_max: int


def read_options(options: Mapping[str, str]) -> SegmentsOptions:
    """The options as Spark hands them over. Raises OptionRefused."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower() for name in _NAMES} | {"path"}
    for name in given:
        if name not in known:
            raise OptionRefused(name, f"the format tidelog-segments has no such option; there are {', '.join(_NAMES)}")
    return SegmentsOptions(
        directories=_directories(given),
        topics=_words(given.get(TOPICS)),
        partitions=_partitions(given.get(PARTITIONS)),
        task_bytes_max=_task_bytes(given.get(TASK_BYTES.lower())),
    )


def _directories(given: Mapping[str, str]) -> tuple[str, ...]:
    text = given.get(DIRECTORIES) or given.get("path") or ""
    names = _json_list(text) if text.lstrip().startswith("[") else _words(text)
    if not names:
        raise OptionRefused(
            DIRECTORIES, "it must name the data directories of brokers, separated by commas or as a JSON list"
        )
    return names


def _json_list(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise OptionRefused(DIRECTORIES, f"{text!r} begins as a JSON list of directories, but is none")
    return tuple(names)


def _words(text: str | None) -> tuple[str, ...] | None:
    words = tuple(word.strip() for word in (text or "").split(",") if word.strip())
    return words or None


def _partitions(text: str | None) -> frozenset[int] | None:
    words = _words(text)
    if words is None:
        return None
    if not all(_NUMBER.fullmatch(word) for word in words):
        raise OptionRefused(PARTITIONS, f"{text!r} is not accepted, but numbers of partitions, separated by commas")
    return frozenset(map(int, words))


def _task_bytes(text: str | None) -> int:
    if text is None:
        return TASK_BYTES_MAX
    if not _NUMBER.fullmatch(text.strip()) or int(text) < _TASK_BYTES_LEAST:
        raise OptionRefused(TASK_BYTES, f"{text!r} is not accepted, but a number of bytes from {_TASK_BYTES_LEAST} on")
    return int(text)
