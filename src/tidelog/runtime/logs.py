"""Log lines: a constant sentence and fields. One renderer serves the process log and the simulation trace, so both read the same.

logger.info("leader elected", extra=fields(partition=topic_partition, leader_epoch=3))
-> leader elected partition=orders-0 leader_epoch=3
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

FIELDS_ATTRIBUTE: Final = "fields"
_PLAIN: Final = re.compile(r"[^\s\"=]+")


def fields(**values: object) -> dict[str, dict[str, object]]:
    """What to pass as `extra`; any name is allowed, also those logging keeps for itself."""
    return {FIELDS_ATTRIBUTE: values}


def render(sentence: str, values: Mapping[str, object]) -> str:
    """One line of text; a value with blanks or quotes in it is quoted, and never breaks the line."""
    return " ".join([sentence, *(f"{name}={_rendered(value)}" for name, value in values.items())])


def _rendered(value: object) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
