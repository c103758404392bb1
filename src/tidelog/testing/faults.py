"""What goes wrong on purpose, told to the brokers that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal, TypeAlias

from tidelog.client import Admin, ClientError
from tidelog.client.admin_faults import answer, cut, delay, described, full_disk
from tidelog.model import BrokerId
from tidelog.testing.errors import ClusterFailed
from tidelog.wire.messages.inject_faults import Fault, FaultKind

Peer: TypeAlias = BrokerId | Literal["clients"]
CLIENTS: Final = "clients"


class FaultDesk:
    """Begins and ends faults; each call returns when the brokers have heard of it. Raises ClusterFailed."""

    def __init__(self, admin: Callable[[], Admin], living: Callable[[], Collection[BrokerId]]) -> None:
        self._admin = admin
        self._living = living

    async def cut(self, broker: BrokerId, peer: Peer) -> None:
        """Both ends of a link are told."""
        for near, fault in _link(broker, peer):
            await self._begin([near], fault)

    async def mend(self, broker: BrokerId | None, peer: Peer | None) -> None:
        """One link, or all of a broker, or all."""
        if broker is not None and peer is not None:
            for near, fault in _link(broker, peer):
                await self._end(near, fault)
            return
        for near in self._living():
            for fault in await self._standing(near):
                if fault.kind == FaultKind.CUT and broker in {None, near, fault.peer_id}:
                    await self._end(near, fault)

    async def fill_disk(self, broker: BrokerId) -> None:
        """No room."""
        await self._begin([broker], full_disk())

    async def free_disk(self, broker: BrokerId) -> None:
        """Room again."""
        await self._end(broker, full_disk())

    async def fail(self, api: str, error: str, *, times: int | None, broker: BrokerId | None, of_brokers: bool) -> None:
        """An error in place of answers."""
        await self._begin(self._those(broker), _made(lambda: answer(api, error, times=times, of_brokers=of_brokers)))

    async def delay(
        self, api: str, delay_ms: int, *, times: int | None, broker: BrokerId | None, of_brokers: bool
    ) -> None:
        """Answers that come late."""
        await self._begin(self._those(broker), _made(lambda: delay(api, delay_ms, times=times, of_brokers=of_brokers)))

    async def end_all(self) -> None:
        """Nothing goes wrong any more."""
        for broker in self._living():
            await self._end(broker)

    async def all(self) -> dict[BrokerId, list[str]]:
        """What goes wrong now, in words."""
        return {broker: [described(fault) for fault in await self._standing(broker)] for broker in self._living()}

    def _those(self, broker: BrokerId | None) -> Collection[BrokerId]:
        those = self._living() if broker is None else [broker]
        if not those:
            raise ClusterFailed("no broker is at work, so none can be told to fail")
        return those

    async def _begin(self, brokers: Iterable[BrokerId], fault: Fault) -> None:
        for broker in brokers:
            self._want(broker)
            try:
                await self._admin().faults.begin(broker, fault)
            except ClientError as error:
                raise ClusterFailed(f"broker {broker}, {described(fault)}: {error}") from error

    async def _end(self, broker: BrokerId, *faults: Fault) -> None:
        self._want(broker)
        try:
            await self._admin().faults.end(broker, *faults)
        except ClientError as error:
            raise ClusterFailed(f"the faults of broker {broker} cannot be ended: {error}") from error

    async def _standing(self, broker: BrokerId) -> Iterable[Fault]:
        try:
            return await self._admin().faults.standing(broker)
        except ClientError as error:
            raise ClusterFailed(f"broker {broker} does not tell its faults: {error}") from error

    def _want(self, broker: BrokerId) -> None:
        if broker not in self._living():
            there = ", ".join(map(str, sorted(self._living()))) or "none"
            raise ClusterFailed(f"there is no broker {broker!r} at work; there are {there}")


def _link(broker: BrokerId, peer: object) -> list[tuple[BrokerId, Fault]]:
    if peer == CLIENTS:
        return [(broker, cut(None))]
    if not isinstance(peer, int) or peer == broker:
        raise ClusterFailed(f"the other end of a link of broker {broker} is another broker or 'clients', not {peer!r}")
    return [(broker, cut(peer)), (peer, cut(broker))]


def _made(make: Callable[[], Fault]) -> Fault:
    try:
        return make()
    except ValueError as error:
        raise ClusterFailed(str(error)) from None
