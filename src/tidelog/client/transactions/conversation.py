"""Asking coordinators, of the transaction and of groups, until the answer is final, whoever the coordinator turns out to be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.client.backoff import Backoff
from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ClientConfig
from tidelog.client.connection import Connection
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import BrokersUnreachable, ConnectionLost, RequestRefused, UnsupportedApi
from tidelog.client.transactions.answers import Meaning, meaning_of
from tidelog.client.transactions.messages import (
    END_OF_TWO,
    FEATURE,
    OFFSETS_OF_TWO,
    PRODUCE_OF_TWO,
    VERSION_MAX,
    versions_of,
)
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.wire.api import ApiKey, Request, Response, api_of
from tidelog.wire.definition import VersionRange
from tidelog.wire.errors import UnencodableMessage
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

R = TypeVar("R", bound=Response)

_ANY: Final = VersionRange(0, VERSION_MAX)

_SOON_MS: Final = 20.0
"""The first wait for a transaction that is being ended, which is a matter of milliseconds."""


class Conversation:
    """One question at a time. It is repeated for as long as it takes: bound it with asyncio.timeout.

    All questions about a transactional id take the same lane, so that a coordinator can tell late mail by the connection it came by.
    """

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._coordinators = {kind: Coordinators(cluster, config, runtime, kind=kind) for kind in CoordinatorKind}
        self._turn = asyncio.Lock()
        self._soon = Backoff(initial_ms=_SOON_MS, max_ms=config.retry_backoff_max_ms)
        self.speaks_version_two = False
        """Whether the coordinator asked last, and the cluster, know version 2 of the protocol."""
        self.lost_count = 0
        """How many answers got lost."""
        self.trouble = "no answer yet"
        """Why the question was asked again the last time."""

    async def ask(
        self,
        who: tuple[CoordinatorKind, str],
        request: Request[R],
        *,
        code_of: Callable[[R], ErrorCode],
        versions: VersionRange = _ANY,
        check: Callable[[], None] = lambda: None,
    ) -> R:
        """The final answer. `check` is called when it is our turn, every time; what it raises ends the matter.

        Raises RequestRefused by whoever was asked for the coordinator, UnsupportedApi or ClientClosed.
        """
        failures = 0
        while True:
            async with self._turn:
                check()
                response = await self._ask_once(who, request, versions)
            code = response if isinstance(response, ErrorCode) else code_of(response)
            meaning = meaning_of(code)
            if meaning.is_final and not isinstance(response, ErrorCode):
                return response
            if code is not ErrorCode.NETWORK_EXCEPTION:
                self.trouble = code.name
            if meaning is Meaning.ASK_ELSEWHERE:
                self._coordinators[who[0]].forget(who[1])
            failures += 1
            backoff = self._soon if meaning is Meaning.ASK_AGAIN_SOON else self._config.retry_backoff
            await asyncio.sleep(backoff.delay_ms(failures, self._runtime.randomness) / 1000)

    async def end(
        self, transactional_id: str, producer: ProducerIdentity, *, is_committed: bool, is_version_two: bool | None
    ) -> EndTxnResponse:
        """End a transaction, in the version of the protocol that it began in; None where nobody knows which that was."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_committed,
        )
        who = (CoordinatorKind.TRANSACTIONAL_ID, transactional_id)
        if is_version_two is None:
            await self._reach(*who)
            is_version_two = self.speaks_version_two
        versions = versions_of(END_OF_TWO, is_version_two=is_version_two)
        return await self.ask(who, request, code_of=lambda answer: answer.error_code, versions=versions)

    async def _reach(self, kind: CoordinatorKind, key: str) -> None:
        """Ask nothing, but learn what the coordinator can do."""
        failures = 0
        while True:
            try:
                await self._connect(kind, key)
            except (ConnectionLost, BrokersUnreachable) as error:
                self._on_loss(error)
            except RequestRefused as refusal:
                if not refusal.code.is_retriable:
                    raise
            else:
                return
            failures += 1
            await asyncio.sleep(self._config.retry_backoff.delay_ms(failures, self._runtime.randomness) / 1000)

    async def _ask_once(
        self, who: tuple[CoordinatorKind, str], request: Request[R], versions: VersionRange
    ) -> R | ErrorCode:
        """The answer, or an error that may pass."""
        try:
            connection = await self._connect(*who)
        except (ConnectionLost, BrokersUnreachable) as error:
            self._on_loss(error)
            return ErrorCode.NETWORK_EXCEPTION
        except RequestRefused as refusal:
            if not refusal.code.is_retriable:
                raise
            return refusal.code
        version = min(connection.version_of(api_of(request).key), versions.high)
        if version < versions.low:
            raise UnsupportedApi(f"the broker at {connection.address} is too old for this transaction")
        try:
            return await connection.request(request, version=version)
        except ConnectionLost as error:
            self._on_loss(error)
            self.lost_count += 1
            return ErrorCode.NETWORK_EXCEPTION
        except UnencodableMessage as error:
            raise UnsupportedApi(f"the broker at {connection.address} is too old: {error}") from error

    async def _connect(self, kind: CoordinatorKind, key: str) -> Connection:
        self.trouble = f"looking for the coordinator of {key!r}"
        node = await self._coordinators[kind].of(key)
        connection = await self._cluster.connect(node, Lane.CONTROL)
        if kind is CoordinatorKind.TRANSACTIONAL_ID:
            self.speaks_version_two = _speaks_version_two(connection)
        return connection

    def _on_loss(self, error: ConnectionLost | BrokersUnreachable) -> None:
        self.trouble = str(error)
        self._cluster.want_refresh()


def _speaks_version_two(connection: Connection) -> bool:
    needed = {
        ApiKey.PRODUCE: PRODUCE_OF_TWO,
        ApiKey.END_TXN: END_OF_TWO,
        ApiKey.TXN_OFFSET_COMMIT: OFFSETS_OF_TWO,
    }
    has_versions = all(connection.versions.get(key, -1) >= version for key, version in needed.items())
    return has_versions and connection.features.get(FEATURE, 0) >= 2
