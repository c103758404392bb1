"""What all listeners of a broker share to protect it: who may come in, how much requests may hold, and the log of refusals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tidelog.runtime import Runtime
from tidelog.server.admission import Admission
from tidelog.server.budget import RequestBudget
from tidelog.server.refusals import RefusalLog

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """How much all clients together may ask of us."""

    connections_max: int = _INT_MAX
    connections_max_per_address: int = _INT_MAX
    request_bytes_max: int | None = 128 << 20  # None sets no bound.
    requests_max: int = 500


class Guard:
    """One per broker."""

    def __init__(self, limits: GuardLimits, runtime: Runtime) -> None:
        self.admission = Admission(
            connections_max=limits.connections_max, per_address_max=limits.connections_max_per_address
        )
        self.budget = RequestBudget(runtime.clock, bytes_max=limits.request_bytes_max, requests_max=limits.requests_max)
        self.connection_numbers = itertools.count(1)
        self.refusals = RefusalLog(runtime.clock, runtime.metrics)

    def look_after(self) -> None:
        """Called about once a second."""
        self.budget.reclaim_if_blocked()
        self.refusals.tell_the_rest()
