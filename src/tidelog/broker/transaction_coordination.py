"""The transactions of this broker: those whose partition of `__transaction_state` it leads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from tidelog.broker.coordination import Coordination, CoordinationSurroundings
from tidelog.broker.internal_topics import TRANSACTIONS_TOPIC
from tidelog.broker.peers import PEER_CLIENT_ID
from tidelog.broker.transaction_markers import LocalWriter, MarkerSurroundings, TransactionMarkers
from tidelog.coordinator import Client, Machine
from tidelog.coordinator.shard import ShardLimits
from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.requests import (
    JoinRequest,
    JoinResponse,
    MarkersWrittenRequest,
    MarkersWrittenResponse,
)
from tidelog.model import LeaderEpoch, invariant

_OURSELVES: Final = Client(PEER_CLIENT_ID, "", 0)


class TransactionCoordination(Coordination):
    """Finds the partition of a transactional id, asks the machine that looks after it, and has markers written."""

    def __init__(
        self, surroundings: CoordinationSurroundings, make: Callable[[], Machine], markers: MarkerSurroundings
    ) -> None:
        super().__init__(TRANSACTIONS_TOPIC, surroundings, make, ShardLimits())
        self._markers = TransactionMarkers(markers, self)

    @asynccontextmanager
    async def serving(self, write: LocalWriter) -> AsyncIterator[None]:
        """Look after transactions until the block is left. `write` writes markers into partitions that this broker leads."""
        async with self._markers.running(write), self.running():
            yield

    def join(self, request: JoinRequest, connection: int = 0) -> JoinResponse | Awaitable[JoinResponse]:
        """Add partitions to a transaction, or look whether they belong to it. What no client's connection brought is never late."""
        return self._ask(request.transactional_id, request, _OURSELVES._replace(connection=connection))

    # For the markers.

    @property
    def markers(self) -> TransactionMarkers:
        """Who tells partitions how transactions ended."""
        return self._markers

    def leader_epoch(self, index: int) -> LeaderEpoch | None:
        """Under which epoch a partition of `__transaction_state` is led here; None if it is not."""
        return self._service.leader_epoch(index)

    def on_markers_written(
        self, request: MarkersWrittenRequest
    ) -> MarkersWrittenResponse | Awaitable[MarkersWrittenResponse]:
        """Let the machine know that a transaction is complete."""
        return self._ask(request.transactional_id, request, _OURSELVES)

    def _on_errand(self, index: int, errand: object) -> None:
        invariant(isinstance(errand, SendMarkers), "transactions want nothing but markers")
        self._markers.send(index, cast("SendMarkers", errand))

    def _on_reign_over(self, index: int) -> None:
        self._markers.forget(index)
