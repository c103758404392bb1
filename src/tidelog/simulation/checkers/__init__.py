"""What may never happen, one invariant a file. A checker looks at snapshots of a running cluster and names what it finds broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tidelog.simulation.checkers.acknowledged_stays import AcknowledgedStays
from tidelog.simulation.checkers.bounds_hold import BoundsHold
from tidelog.simulation.checkers.committed_never_changes import CommittedNeverChanges
from tidelog.simulation.checkers.equal_below_watermark import EqualBelowWatermark
from tidelog.simulation.checkers.isr_has_committed import IsrHasCommitted
from tidelog.simulation.checkers.one_leader_per_epoch import OneLeaderPerEpoch
from tidelog.simulation.observer import Snapshot

__all__ = [
    "AcknowledgedStays",
    "BoundsHold",
    "Checker",
    "CommittedNeverChanges",
    "EqualBelowWatermark",
    "InvariantBroken",
    "IsrHasCommitted",
    "OneLeaderPerEpoch",
    "all_checkers",
    "check",
]


class Checker(Protocol):
    """One invariant."""

    @property
    def name(self) -> str:
        """How reports call it, e.g. `I4 bounds hold`."""
        ...

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What is broken now, or with regard to what was seen before."""
        ...


class InvariantBroken(Exception):
    """The first thing that may never happen, and did."""


def all_checkers() -> list[Checker]:
    """I2 to I6; I1 needs to know what was acknowledged and is made by the workload."""
    return [CommittedNeverChanges(), EqualBelowWatermark(), BoundsHold(), IsrHasCommitted(), OneLeaderPerEpoch()]


def check(checkers: Sequence[Checker], snapshot: Snapshot) -> None:
    """Raise InvariantBroken for the first violation."""
    for checker in checkers:
        for violation in checker.look(snapshot):
            raise InvariantBroken(f"at {snapshot.now_ms:.3f} ms, {checker.name}: {violation}")
