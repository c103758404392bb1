"""What the machine of transactions must know of the settings, and whom it asks for ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """As of now; the broker hands the machine a callable that gives the settings that hold."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    expiry_check_ms: int = 3_600_000
    abort_check_ms: int = 10_000  # the most that a time-out may come late
    is_two_phase_enabled: bool = False
    version: TransactionVersion = TransactionVersion.TWO


class ProducerIdSource(Protocol):
    """Producer ids that were fetched ahead. Taking one that is not used in the end does no harm."""

    def take(self) -> ProducerId | None:
        """An id that nobody else ever got; None while none is at hand, and then more are on their way."""
        ...
