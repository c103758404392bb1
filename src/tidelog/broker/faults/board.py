"""The faults that stand. Pure but for one event, which wakes requests that wait for a cut to end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidelog.broker.faults.refusing import REFUSING
from tidelog.model import BrokerId, ErrorCode
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.messages.inject_faults import CLIENTS, FOR_EVER, FaultKind

FAULTS_MAX: Final = 100
DELAY_MS_MAX: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong. Of a cut it says with whom, of an answer or a delay to which requests, and how many more times."""

    kind: FaultKind
    peer: BrokerId = CLIENTS
    is_of_brokers: bool = False
    api: ApiKey | None = None
    error: ErrorCode = ErrorCode.NONE
    delay_ms: int = 0
    times: int = FOR_EVER

    def is_same_as(self, other: Fault) -> bool:
        """Whether one takes the place of the other: there is one cut of a link, and one answer and one delay of an API."""
        return (self.kind, self.peer, self.is_of_brokers, self.api) == (
            other.kind,
            other.peer,
            other.is_of_brokers,
            other.api,
        )


class WrongFault(ValueError):
    """There is no such fault; the sentence says what there is."""


class Faults:
    """The faults of one broker, in the order in which they began."""

    def __init__(self) -> None:
        self._standing: list[Fault] = []
        self._has_changed = asyncio.Event()

    @property
    def standing(self) -> Sequence[Fault]:
        """What goes wrong now."""
        return tuple(self._standing)

    @property
    def is_disk_full(self) -> bool:
        """Whether writing fails."""
        return any(fault.kind is FaultKind.FULL_DISK for fault in self._standing)

    def begin(self, faults: Sequence[Fault]) -> None:
        """Let these go wrong from now on, in the place of earlier ones like them. All or none. Raises WrongFault."""
        if len(faults) > FAULTS_MAX:
            raise WrongFault(f"a broker has {FAULTS_MAX} faults at most")
        for fault in faults:
            _check(fault)
        kept = [old for old in self._standing if not any(new.is_same_as(old) for new in faults)]
        if len(kept) + len(faults) > FAULTS_MAX:
            raise WrongFault(f"a broker has {FAULTS_MAX} faults at most")
        self._change([*kept, *faults])

    def end(self, faults: Sequence[Fault]) -> None:
        """Let these go wrong no longer, or none at all where none is named."""
        self._change([old for old in self._standing if faults and not any(gone.is_same_as(old) for gone in faults)])

    def is_cut(self, peer: BrokerId) -> bool:
        """Whether nothing passes between us and a broker, or the clients."""
        return any(fault.kind is FaultKind.CUT and fault.peer == peer for fault in self._standing)

    async def until_mended(self, peer: BrokerId) -> None:
        """Wait as long as nothing passes between us and a peer."""
        while self.is_cut(peer):
            await self._has_changed.wait()

    def stands(self, kind: FaultKind, api: ApiKey, *, is_of_brokers: bool) -> bool:
        """Whether the next request of an API meets such an answer or delay."""
        wanted = Fault(kind=kind, api=api, is_of_brokers=is_of_brokers)
        return any(fault.is_same_as(wanted) for fault in self._standing)

    def take(self, kind: FaultKind, api: ApiKey, *, is_of_brokers: bool) -> Fault | None:
        """The answer or delay that the next request of an API meets, one time less from now on."""
        wanted = Fault(kind=kind, api=api, is_of_brokers=is_of_brokers)
        for place, fault in enumerate(self._standing):
            if fault.is_same_as(wanted):
                if fault.times == 1:
                    del self._standing[place]
                elif fault.times > 1:
                    self._standing[place] = replace(fault, times=fault.times - 1)
                return fault
        return None

    def _change(self, standing: list[Fault]) -> None:
        self._standing = standing
        self._has_changed.set()
        self._has_changed = asyncio.Event()


def _check(fault: Fault) -> None:
    if fault.kind in {FaultKind.CUT, FaultKind.FULL_DISK}:
        return
    if fault.times != FOR_EVER and fault.times < 1:
        raise WrongFault(f"a fault happens once or more, not {fault.times} times")
    if fault.api is None or API_TABLE[fault.api].is_private:
        raise WrongFault(f"{fault.kind} wants an API of Kafka's")
    if fault.kind is FaultKind.DELAY and not 1 <= fault.delay_ms <= DELAY_MS_MAX:
        raise WrongFault(f"a delay is 1 to {DELAY_MS_MAX} ms, not {fault.delay_ms}")
    if fault.kind is FaultKind.ANSWER and fault.api not in REFUSING:
        there = ", ".join(sorted(api.kafka_name for api in REFUSING))
        raise WrongFault(f"{fault.api.kafka_name} cannot be answered with an error; these can: {there}")
    if fault.kind is FaultKind.ANSWER and fault.error is ErrorCode.NONE:
        raise WrongFault("an answer wants an error other than NONE")
