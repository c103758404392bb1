"""Letting a broker fail on purpose, where it was started for tests. For `tidelog.testing` and `tidelog fault`."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokersUnreachable, RequestRefused
from tidelog.model import BrokerId, ErrorCode
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.messages.inject_faults import (
    BEGIN,
    CLIENTS,
    END,
    FOR_EVER,
    LIST,
    Fault,
    FaultKind,
    InjectFaultsRequest,
)

FAULTS_CLIENT_ID: Final = "tidelog-faults"
"""The client.id of who may speak to a broker that is silent on purpose."""
_VERSION: Final = 0  # said outright, since brokers do not advertise what is not of Kafka's protocol
_TIMEOUT_MS: Final = 5_000.0


class FaultAdmin:
    """Asks one broker at a time. The cluster's client.id must be FAULTS_CLIENT_ID.

    Everything raises RequestRefused, with the reason, ConnectionLost or BrokersUnreachable.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def begin(self, broker: BrokerId, *faults: Fault) -> Sequence[Fault]:
        """Let these go wrong from now on; all that goes wrong then."""
        return await self._ask(broker, InjectFaultsRequest(action=BEGIN, faults=faults))

    async def end(self, broker: BrokerId, *faults: Fault) -> Sequence[Fault]:
        """Let these go wrong no longer, or nothing at all where none is named; what still goes wrong then."""
        return await self._ask(broker, InjectFaultsRequest(action=END, faults=faults))

    async def standing(self, broker: BrokerId) -> Sequence[Fault]:
        """What goes wrong now."""
        return await self._ask(broker, InjectFaultsRequest(action=LIST))

    async def _ask(self, broker: BrokerId, request: InjectFaultsRequest) -> Sequence[Fault]:
        try:
            async with asyncio.timeout(_TIMEOUT_MS / 1000):
                answer = await self._cluster.request(broker, request, timeout_ms=_TIMEOUT_MS, version=_VERSION)
        except TimeoutError:
            raise BrokersUnreachable(f"broker {broker} did not answer within {_TIMEOUT_MS / 1000:g} s") from None
        if answer.error_code is not ErrorCode.NONE:
            raise RequestRefused(answer.error_code, answer.error_message)
        return answer.faults


# --- the faults there are ---------------------------------------------------------------------------------------------------------------


def cut(peer: BrokerId | None) -> Fault:
    """Silence between a broker and another one, or with None its clients. A link of two brokers is cut when both are told."""
    return Fault(kind=FaultKind.CUT, peer_id=CLIENTS if peer is None else peer)


def full_disk() -> Fault:
    """No room to write."""
    return Fault(kind=FaultKind.FULL_DISK)


def answer(api: str, error: str, *, times: int | None = 1, of_brokers: bool = False) -> Fault:
    """An error instead of an answer, so many times or with None until it is ended. Raises ValueError."""
    return Fault(
        kind=FaultKind.ANSWER,
        api_key=_api(api),
        error=_error(error),
        times=_times(times),
        is_of_brokers=of_brokers,
    )


def delay(api: str, delay_ms: int, *, times: int | None = None, of_brokers: bool = False) -> Fault:
    """An answer that comes late. Raises ValueError."""
    return Fault(
        kind=FaultKind.DELAY,
        api_key=_api(api),
        delay_ms=delay_ms,
        times=_times(times),
        is_of_brokers=of_brokers,
    )


def described(fault: Fault) -> str:
    """A fault in words."""
    times = "until it is ended" if fault.times == FOR_EVER else "once" if fault.times == 1 else f"{fault.times} times"
    of = " of brokers" if fault.is_of_brokers else ""
    match fault.kind:
        case FaultKind.CUT:
            return f"cut from {'clients' if fault.peer_id == CLIENTS else f'broker {fault.peer_id}'}"
        case FaultKind.FULL_DISK:
            return "disk full"
        case FaultKind.DELAY:
            return f"{ApiKey(fault.api_key).kafka_name}{of} {fault.delay_ms} ms late, {times}"
        case _:
            return f"{ApiKey(fault.api_key).kafka_name}{of} answered with {fault.error.name}, {times}"


def _times(times: int | None) -> int:
    if times is not None and times < 1:
        raise ValueError(f"{times} is not how many times: that is 1 or more, or None until it is ended")
    return FOR_EVER if times is None else times


def _api(name: str) -> ApiKey:
    apis = {key.kafka_name.lower(): key for key, api in API_TABLE.items() if not api.is_private}
    if (found := apis.get(name.replace("_", "").lower())) is None:
        raise ValueError(f"Kafka has no API {name!r}{_perhaps(name, [key.kafka_name for key in apis.values()])}")
    return found


def _error(name: str) -> ErrorCode:
    if name not in ErrorCode.__members__:
        raise ValueError(f"Kafka has no error {name!r}{_perhaps(name, ErrorCode.__members__)}")
    return ErrorCode[name]


def _perhaps(name: str, known: Iterable[str]) -> str:
    """Names are meant to be Kafka's, but for their letters."""
    folded = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"; did you mean {folded[near[0]]}?" if near else ""
