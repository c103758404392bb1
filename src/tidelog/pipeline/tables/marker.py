"""The marker of a micro-batch: published with its files, so that whoever comes later knows that they are there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Final

_HEX_DIGITS: Final = 15  # so that a digest is a positive number of 60 bits, which is all that Delta keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Which micro-batch was published last in the name of a writer."""

    writer_id: str  # of a query its id: another checkpoint has another one, so a full refresh is no replay
    number: int  # the micro-batch id
    run: str  # a digest of the id of the run
    source: str  # a digest of where the micro-batch ended in its sources: a replay has the same

    def to_json(self) -> str:
        """As a text."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Marker | None:
        """Read what `to_json` wrote; None for what somebody else did."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


def digest(text: str) -> str:
    """A text made short."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX_DIGITS]


def as_number(short: str) -> int:
    """A digest as a number."""
    return int(short, 16)


def from_number(number: int) -> str:
    """And back."""
    return f"{number:0{_HEX_DIGITS}x}"
