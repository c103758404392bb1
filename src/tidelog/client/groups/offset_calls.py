"""Asking a group's coordinator to remember offsets, and what it remembers, whoever the coordinator turns out to be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ConsumerConfig
from tidelog.client.coordinators import Coordinators
from tidelog.client.errors import (
    BrokersUnreachable,
    CommitFailed,
    ConnectionLost,
    FetchFailed,
    GroupRefused,
    NoPosition,
    RequestRefused,
)
from tidelog.client.groups.classic_membership import COORDINATOR_ELSEWHERE
from tidelog.client.groups.membership import Identity
from tidelog.client.groups.offset_commits import (
    CONCERNS_THE_MEMBER,
    NAMES_UP_TO,
    Committed,
    CommitVerdict,
    Offsets,
    commit_request,
    fetch_request,
    judge_commit,
    read_commit,
    read_fetch,
)
from tidelog.model import ErrorCode, TopicPartition
from tidelog.wire.api import ApiKey


class OffsetCalls:
    """Commits are sent one after the other, so that a retry never takes a newer offset back."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, runtime: ClientRuntime, coordinators: Coordinators
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._coordinators = coordinators
        self._group_id = config.group_id or ""
        self._turn = asyncio.Lock()

    async def commit(
        self,
        offsets: Offsets,
        member: Identity,
        *,
        timeout_ms: float,
        renewed: Callable[[Iterable[TopicPartition]], Identity | None],
        on_refused: Callable[[ErrorCode, Identity], None],
    ) -> None:
        """Have them remembered, with retries. Raises CommitFailed, or RequestRefused by whoever was asked for the coordinator.

        The member is that of the beginning: what it commits after it was put out of the group must not count. Only where its epoch has
        gone on (KIP-848) is `renewed` asked who commits for these by now, if they are still ours. `on_refused` hears what concerns it.
        """
        left, failed = dict(offsets), dict[TopicPartition, ErrorCode]()
        attempts = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._turn:
                while left:
                    await self._back_off(attempts)
                    attempts += 1
                    codes = await self._commit_once(left, member)
                    failed |= self._sort_out(left, codes)
                    for code in dict.fromkeys(code for code in codes.values() if code in CONCERNS_THE_MEMBER):
                        on_refused(code, member)
                    if left and ErrorCode.STALE_MEMBER_EPOCH in codes.values():
                        now_called = renewed(left)
                        if now_called is None:
                            raise CommitFailed(failed | dict.fromkeys(left, ErrorCode.STALE_MEMBER_EPOCH))
                        member = now_called
        except TimeoutError:
            raise CommitFailed(failed) from None
        if failed:
            raise CommitFailed(failed)

    def _sort_out(
        self, left: dict[TopicPartition, Committed], codes: Mapping[TopicPartition, ErrorCode]
    ) -> dict[TopicPartition, ErrorCode]:
        """Leave what is to be tried again; returns what will never be."""
        failed = {}
        for key, code in codes.items():
            match judge_commit(code):
                case CommitVerdict.DONE:
                    left.pop(key, None)
                case CommitVerdict.RETRY_ELSEWHERE:
                    self._coordinators.forget(self._group_id)
                case CommitVerdict.FAILED:
                    left.pop(key, None)
                    failed[key] = code
        return failed

    async def fetch(
        self, wanted: Iterable[TopicPartition], identity: Callable[[], Identity], *, timeout_ms: float
    ) -> dict[TopicPartition, Committed | None]:
        """What is remembered, None where nothing is. Raises NoPosition after the timeout, GroupRefused or FetchFailed."""
        missing = dict.fromkeys(wanted)
        found: dict[TopicPartition, Committed | None] = {}
        attempts = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while missing:
                    await self._back_off(attempts)
                    attempts += 1
                    for key, answer in (await self._fetch_once(missing, identity())).items():
                        if not isinstance(answer, ErrorCode):
                            missing.pop(key, None)
                            found[key] = answer
                        elif not answer.is_retriable and answer is not ErrorCode.STALE_MEMBER_EPOCH:
                            raise FetchFailed(key, answer)
        except TimeoutError:
            names = ", ".join(map(str, missing))
            raise NoPosition(f"no answer what group {self._group_id!r} has committed for {names}") from None
        return found

    async def _back_off(self, attempts: int) -> None:
        if attempts:
            await asyncio.sleep(self._config.retry_backoff.delay_ms(attempts, self._runtime.randomness) / 1000)

    async def _commit_once(self, offsets: Offsets, member: Identity) -> dict[TopicPartition, ErrorCode]:
        """The answers; empty if nobody answered."""
        try:
            node = await self._coordinators.of(self._group_id)
            connection = await self._cluster.connect(node, Lane.CONTROL)
            version = min(connection.version_of(ApiKey.OFFSET_COMMIT), NAMES_UP_TO)
            request = commit_request(self._group_id, member, offsets)
            return read_commit(await connection.request(request, version=version))
        except (ConnectionLost, BrokersUnreachable):
            self._on_loss()
        except RequestRefused as error:
            if not error.code.is_retriable:
                raise
        return {}

    async def _fetch_once(
        self, wanted: Iterable[TopicPartition], member: Identity
    ) -> dict[TopicPartition, Committed | ErrorCode | None]:
        try:
            node = await self._coordinators.of(self._group_id)
            connection = await self._cluster.connect(node, Lane.CONTROL)
            version = min(connection.version_of(ApiKey.OFFSET_FETCH), NAMES_UP_TO)
            request = fetch_request(self._group_id, member, wanted, version=version)
            answer = read_fetch(await connection.request(request, version=version))
        except (ConnectionLost, BrokersUnreachable):
            self._on_loss()
            return {}
        except RequestRefused as error:
            if not error.code.is_retriable:
                raise
            return {}
        if not isinstance(answer, ErrorCode):
            return answer
        if answer in COORDINATOR_ELSEWHERE:
            self._coordinators.forget(self._group_id)
        elif not answer.is_retriable and answer not in _ASK_AS_SOMEBODY_ELSE:
            raise GroupRefused(answer)
        return {}

    def _on_loss(self) -> None:
        self._coordinators.forget(self._group_id)
        self._cluster.want_refresh()


_ASK_AS_SOMEBODY_ELSE = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""The member's epoch has moved on, or it is about to be told that it was put out; either way the next question is another's."""
