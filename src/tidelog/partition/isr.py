"""The in-sync replicas of a partition as its leader knows them: what is committed, and the one change that may be under way.

While a change is under way nobody here knows whether the registry holds the old or the new ISR, so the high watermark must respect both:
it counts the *maximal* ISR, their union (R13).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from tidelog.model import BrokerId, ErrorCode
from tidelog.partition.values import IsrProposal


class Refusal(enum.Enum):
    """What a leader does about an ISR change that was not committed."""

    ROLL_BACK = enum.auto()
    """It was decided against: the committed ISR stands."""
    WAIT = enum.auto()
    """The controller knows something newer, which it will tell: until then either ISR may be in force."""
    RETRY = enum.auto()
    """Nothing was decided, as far as we know."""


_VERDICTS: Final = {
    ErrorCode.INELIGIBLE_REPLICA: Refusal.ROLL_BACK,
    ErrorCode.OPERATION_NOT_ATTEMPTED: Refusal.ROLL_BACK,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Refusal.WAIT,
    ErrorCode.UNKNOWN_TOPIC_ID: Refusal.WAIT,
    ErrorCode.FENCED_LEADER_EPOCH: Refusal.WAIT,
    ErrorCode.INVALID_UPDATE_VERSION: Refusal.WAIT,
    ErrorCode.INVALID_REQUEST: Refusal.WAIT,
    ErrorCode.NEW_LEADER_ELECTED: Refusal.WAIT,
}


def verdict(code: ErrorCode) -> Refusal:
    """What a refusal with this code means for the change that was asked for."""
    return _VERDICTS.get(code, Refusal.RETRY)


class InSyncReplicas:
    """The committed ISR and the change under way; empty on a replica that does not lead."""

    __slots__ = ("committed", "maximal", "pending")

    def __init__(self) -> None:
        self.committed: tuple[BrokerId, ...] = ()
        self.maximal: tuple[BrokerId, ...] = ()
        """Everybody who may be in the ISR, whatever becomes of the change under way."""
        self.pending: IsrProposal | None = None

    def commit(self, isr: tuple[BrokerId, ...]) -> None:
        """The registry holds this ISR; a change under way is settled with that."""
        self.committed = self.maximal = isr
        self.pending = None

    def propose(self, proposal: IsrProposal) -> None:
        """A change is under way."""
        self.pending = proposal
        self.maximal = _union(self.committed, (broker_id for broker_id, _ in proposal.isr))

    def roll_back(self) -> None:
        """The change under way will not come."""
        self.commit(self.committed)


def _union(isr: tuple[BrokerId, ...], proposed: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    return isr + tuple(broker_id for broker_id in proposed if broker_id not in isr)
