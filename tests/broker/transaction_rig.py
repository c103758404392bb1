"""A coordinator of transactions whose answers a test writes, for the brokers of the rig."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, NoReturn

from tidelog.coordinator.transaction.requests import JoinRequest, JoinResponse
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

COORDINATOR: Final = 1


class ScriptedCoordinator:
    """Says yes to everything, unless told otherwise; broker 1 has it."""

    def __init__(self) -> None:
        self.asked: list[JoinRequest] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.leave: asyncio.Event | None = None
        """Set: no answer before this."""

    def coordinator_of(self, _: str) -> BrokerId | None:
        """Who looks after every id."""
        return COORDINATOR

    def join(self, request: JoinRequest, connection: int = 0) -> JoinResponse | Awaitable[JoinResponse]:
        """As TransactionCoordination has it."""
        assert connection == 0
        self.asked.append(request)
        return self._answer(request) if self.leave is None else self._answer_later(request, self.leave)

    async def request(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest, *, version: int | None = None
    ) -> NoReturn:
        """Nobody else is asked."""
        raise AssertionError(broker_id, request, version)

    async def _answer_later(self, request: JoinRequest, leave: asyncio.Event) -> JoinResponse:
        await leave.wait()
        return self._answer(request)

    def _answer(self, request: JoinRequest) -> JoinResponse:
        return JoinResponse(codes={key: self.codes.get(key, ErrorCode.NONE) for key in request.partitions})
