"""Handlers that meet the faults that stand before they do their work, and answers that meet them on their way out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeAlias, cast

from tidelog.broker.faults.board import Fault, Faults
from tidelog.broker.faults.refusing import SESSION_FORGOTTEN, is_incremental, refused
from tidelog.broker.peers import broker_id_of
from tidelog.client.admin_faults import FAULTS_CLIENT_ID
from tidelog.model import BrokerId
from tidelog.server import Handler, RequestContext
from tidelog.server.pipeline import Settling
from tidelog.wire.api import API_TABLE, ApiKey, Response
from tidelog.wire.messages.inject_faults import CLIENTS, FaultKind

_Answer: TypeAlias = "Response | Settling[Response | None] | None"


def troubled(handlers: Mapping[ApiKey, Handler], faults: Faults, *, are_brokers: bool) -> dict[ApiKey, Handler]:
    """The same handlers, for the listener of clients or of brokers, on a broker that can have faults."""
    return {
        key: handler if API_TABLE[key].is_private else _Troubled(key, handler, faults, are_brokers=are_brokers)
        for key, handler in handlers.items()
    }


class _Troubled:
    """One API on one listener."""

    def __init__(self, key: ApiKey, handler: Handler, faults: Faults, *, are_brokers: bool) -> None:
        self._key = key
        self._handler = handler
        self._faults = faults
        self._are_brokers = are_brokers

    def __call__(self, context: RequestContext, request: object) -> object:
        if context.client_id == FAULTS_CLIENT_ID:  # or nobody could end the silence of a broker
            return self._handler(context, request)
        peer = (broker_id_of(context.client_id) if self._are_brokers else None) or CLIENTS
        if self._faults.standing:
            return self._later(context, request, peer)
        return self._held(self._handler(context, request), peer)

    async def _later(self, context: RequestContext, request: object, peer: BrokerId) -> _Answer:
        await self._faults.until_mended(peer)
        if delay := self._taken(FaultKind.DELAY, peer):
            await asyncio.sleep(delay.delay_ms / 1000)
        if is_incremental(request) and self._faults.stands(FaultKind.ANSWER, self._key, is_of_brokers=peer != CLIENTS):
            return SESSION_FORGOTTEN
        if refusal := self._taken(FaultKind.ANSWER, peer):
            return refused(self._key, request, refusal.error)
        answer = self._held(self._handler(context, request), peer)
        if answer is None or isinstance(answer, Response | Settling):
            return cast("_Answer", answer)
        return await cast("Awaitable[_Answer]", answer)

    def _taken(self, kind: FaultKind, peer: BrokerId) -> Fault | None:
        return self._faults.take(kind, self._key, is_of_brokers=peer != CLIENTS)

    def _held(self, answer: object, peer: BrokerId) -> object:
        """An answer that waits, and then for the link as well, as one that is given at once has left before anything is cut."""
        if answer is None or isinstance(answer, Response):
            return answer
        if isinstance(answer, Settling):
            return Settling(self._settled(cast("Awaitable[Response | None]", answer.answer), peer))
        return self._waited(cast("Awaitable[_Answer]", answer), peer)

    async def _waited(self, answer: Awaitable[_Answer], peer: BrokerId) -> _Answer:
        given = await answer
        if isinstance(given, Settling):
            return Settling(self._settled(given.answer, peer))
        await self._faults.until_mended(peer)
        return given

    async def _settled(self, answer: Awaitable[Response | None], peer: BrokerId) -> Response | None:
        given = await answer
        await self._faults.until_mended(peer)
        return given
