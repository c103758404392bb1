"""Who looks after a group or a transactional id: asked once, remembered until that turns out to be wrong.

And asking those brokers, whoever they are.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import BrokersUnreachable, ConnectionLost, RequestRefused
from tidelog.model import BrokerId, ErrorCode
from tidelog.wire.errors import UnencodableMessage
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

T = TypeVar("T")

Ask: TypeAlias = Callable[[BrokerId, Sequence[str]], Awaitable[Mapping[str, T | ErrorCode]]]

_KEYS_PER_REQUEST: Final = 1_000
_VERSION_OF_ONE_GROUP: Final = 0  # every broker speaks it
_VERSION_OF_ONE_KEY: Final = 1
_IS_ELSEWHERE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
)
_WORTH_A_RETRY: Final = _IS_ELSEWHERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}


class CoordinatorKind(enum.IntEnum):
    """What is coordinated; the number is the type of the key in FindCoordinator."""

    GROUP = 0
    TRANSACTIONAL_ID = 1

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class Coordinators:
    """Knows which broker looks after a group, or a transactional id; finds out if need be, for default.api.timeout.ms at most."""

    def __init__(
        self,
        cluster: Cluster,
        config: ClientConfig,
        runtime: ClientRuntime,
        *,
        kind: CoordinatorKind = CoordinatorKind.GROUP,
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._known: dict[str, BrokerId] = {}

    async def of(self, key: str) -> BrokerId:
        """The coordinator of a group or transactional id, which metadata knows an address of.

        Raises RequestRefused with the last error code, BrokersUnreachable if no broker answered, or UnsupportedApi.
        """
        found = (await self.of_each([key]))[key]
        if found is ErrorCode.NETWORK_EXCEPTION:
            raise BrokersUnreachable(f"no broker told who coordinates {self._kind} {key!r}")
        if isinstance(found, ErrorCode):
            raise RequestRefused(found, f"{self._kind} {key!r} has no coordinator")
        return found

    async def of_each(self, keys: Iterable[str]) -> dict[str, BrokerId | ErrorCode]:
        """The coordinator of each key, or the error that looking for it ended with. Raises UnsupportedApi."""
        answers: dict[str, BrokerId | ErrorCode] = dict.fromkeys(keys, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answers.update({key: self._known[key] for key in answers if key in self._known})

        async def round_of(missing: Sequence[str]) -> None:
            answers.update(await self._look_up(missing))

        await _until_answered(answers, round_of, self._config, self._runtime)
        return answers

    async def of_each_now(self, keys: Iterable[str]) -> dict[str, BrokerId | ErrorCode]:
        """The same for those who want to see it change: whatever is remembered is asked for again."""
        wanted = list(keys)
        for key in wanted:
            self.forget(key)
        return await self.of_each(wanted)

    def forget(self, key: str) -> None:
        """It is somebody else by now, or does not answer: ask again next time."""
        self._known.pop(key, None)

    async def _look_up(self, keys: Sequence[str]) -> dict[str, BrokerId | ErrorCode]:
        answers: dict[str, BrokerId | ErrorCode] = {}
        try:
            for start in range(0, len(keys), _KEYS_PER_REQUEST):
                answers.update(await self._ask_for(tuple(keys[start : start + _KEYS_PER_REQUEST])))
        except (ConnectionLost, BrokersUnreachable):
            return {**dict.fromkeys(keys, ErrorCode.NETWORK_EXCEPTION), **answers}
        found = {key: answer for key, answer in answers.items() if not isinstance(answer, ErrorCode)}
        if not set(found.values()) <= self._cluster.metadata.brokers.keys():
            await self._cluster.refresh()
        for key, node in found.items():
            if node in self._cluster.metadata.brokers:
                self._known[key] = node
            else:  # only the answer has its address: metadata will soon, or it is gone
                answers[key] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return answers

    async def _ask_for(self, keys: tuple[str, ...]) -> dict[str, BrokerId | ErrorCode]:
        request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=keys)
        try:
            found = (await self._cluster.request(None, request)).coordinators
        except UnencodableMessage:  # before Kafka 3.0
            return {key: await self._ask_for_one(key) for key in keys}
        return {row.key: row.node_id if row.error_code is ErrorCode.NONE else row.error_code for row in found}

    async def _ask_for_one(self, key: str) -> BrokerId | ErrorCode:
        is_group = self._kind is CoordinatorKind.GROUP
        request = FindCoordinatorRequest(key=key, key_type=self._kind)
        version = _VERSION_OF_ONE_GROUP if is_group else _VERSION_OF_ONE_KEY
        found = await self._cluster.request(None, request, version=version)
        return found.node_id if found.error_code is ErrorCode.NONE else found.error_code


class CoordinatorQuestions:
    """Repeats a question for those keys whose coordinator was another one, loads, or did not answer, for default.api.timeout.ms."""

    def __init__(
        self,
        cluster: Cluster,
        config: ClientConfig,
        runtime: ClientRuntime,
        *,
        kind: CoordinatorKind = CoordinatorKind.GROUP,
    ) -> None:
        self.coordinators = Coordinators(cluster, config, runtime, kind=kind)
        self._config = config
        self._runtime = runtime

    async def ask(self, keys: Iterable[str], ask: Ask[T]) -> dict[str, T | ErrorCode]:
        """The answer of each key's coordinator, or the error it ended with. Raises UnsupportedApi."""
        answers: dict[str, T | ErrorCode] = dict.fromkeys(keys, ErrorCode.COORDINATOR_NOT_AVAILABLE)

        async def round_of(missing: Sequence[str]) -> None:
            await self._round(missing, ask, answers)

        await _until_answered(answers, round_of, self._config, self._runtime)
        return answers

    async def _round(self, missing: Sequence[str], ask: Ask[T], answers: dict[str, T | ErrorCode]) -> None:
        by_coordinator: dict[BrokerId, list[str]] = {}
        for key, found in (await self.coordinators.of_each(missing)).items():
            if isinstance(found, ErrorCode):
                answers[key] = found
            else:
                by_coordinator.setdefault(found, []).append(key)
        for node in sorted(by_coordinator):
            await self._ask_broker(node, by_coordinator[node], ask, answers)
        for key in missing:
            if _is_one_of(answers[key], _IS_ELSEWHERE):
                self.coordinators.forget(key)

    async def _ask_broker(
        self, node: BrokerId, keys: Sequence[str], ask: Ask[T], answers: dict[str, T | ErrorCode]
    ) -> None:
        try:
            answers.update(await ask(node, keys))
        except (ConnectionLost, BrokersUnreachable):
            answers.update(dict.fromkeys(keys, ErrorCode.NETWORK_EXCEPTION))


async def _until_answered(
    answers: Mapping[str, object],
    round_of: Callable[[Sequence[str]], Awaitable[None]],
    config: ClientConfig,
    runtime: ClientRuntime,
) -> None:
    """Ask in rounds for whoever has an error that may pass; when the time is up, each has the error it met last."""
    failures = 0
    try:
        async with asyncio.timeout(config.default_api_timeout_ms / 1000):
            while missing := [key for key, answer in answers.items() if _is_one_of(answer, _WORTH_A_RETRY)]:
                if failures:
                    await asyncio.sleep(config.retry_backoff.delay_ms(failures, runtime.randomness) / 1000)
                failures += 1
                await round_of(missing)
    except TimeoutError:
        return


def _is_one_of(answer: object, codes: frozenset[ErrorCode]) -> bool:
    """Asks for the type first: an error code is a number, and equals the id of some broker."""
    return isinstance(answer, ErrorCode) and answer in codes
