"""Who is killed when: drawn from a seed. SIGKILL only: nobody gets to say goodbye."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidelog.pipeline.demo.chance import Chance

PAUSE_S: Final = (2.0, 6.0)
_ORDINAL: Final = 1 << 40  # a stream of its own, far from those of the orders


class Victim(enum.StrEnum):
    """What can be killed."""

    BROKER = "broker"  # it is started again after 2 s
    EXECUTOR = "executor"  # who does the tasks: Python workers, or executor JVMs
    COMMITTER = "committer"  # the driver's Python process that commits micro-batches
    DRIVER = "driver"  # its JVM alone, which leaves Python processes behind to be zombies, or everything at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The next one: after how long, what kind, and a draw that says which one of those there are then."""

    after_s: float
    victim: Victim
    draw: int


def kills_of(seed: int) -> Iterator[Kill]:
    """Without end: first each kind once in some order, then as it comes, brokers and executors twice as often as what stops a query."""
    chance = Chance(seed, _ORDINAL)
    first = list(Victim)
    while True:
        if first:
            victim = first.pop(chance.below(len(first)))
        else:
            kinds = [Victim.BROKER] * 2 + [Victim.EXECUTOR] * 2 + [Victim.COMMITTER, Victim.DRIVER]
            victim = kinds[chance.below(len(kinds))]
        yield Kill(after_s=chance.between(*PAUSE_S), victim=victim, draw=chance.below(1 << 32))
