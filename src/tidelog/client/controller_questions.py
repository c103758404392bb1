"""Asking the controller, whoever it turns out to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ClientConfig
from tidelog.client.connection import Connection
from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost
from tidelog.client.metadata import NO_LEADER
from tidelog.model import ErrorCode
from tidelog.wire.api import Request, Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class ControllerQuestions:
    """Repeats a question until the broker that is asked is the controller, for default.api.timeout.ms.

    The controller is the one that metadata names; after NOT_CONTROLLER, or when it does not answer, metadata is asked for again.
    """

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime

    async def request(self, request: Request[R], codes_of: Callable[[R], Iterable[ErrorCode]]) -> R:
        """The controller's answer to a request whose answers have these error codes. Raises BrokersUnreachable or UnsupportedApi."""

        async def ask(controller: Connection) -> R:
            return await controller.request(request)

        return await self.ask(ask, codes_of)

    async def ask(self, ask: Callable[[Connection], Awaitable[T]], codes_of: Callable[[T], Iterable[ErrorCode]]) -> T:
        """The same for a question that depends on the versions which the controller speaks."""
        failure: ClientError | None = None
        failures = 0
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                while True:
                    if failures or self._cluster.metadata.controller_id == NO_LEADER:
                        await self._cluster.refresh()
                    node = self._cluster.metadata.controller_id
                    try:
                        answer = await ask(await self._cluster.connect(node, Lane.CONTROL))
                        if ErrorCode.NOT_CONTROLLER not in codes_of(answer):
                            return answer
                        failure = BrokersUnreachable(f"broker {node} is not the controller")
                    except (ConnectionLost, BrokersUnreachable) as error:
                        failure = error
                    failures += 1
                    delay_ms = self._config.retry_backoff.delay_ms(failures, self._runtime.randomness)
                    await asyncio.sleep(delay_ms / 1000)
        except TimeoutError:
            last = failure or self._why_no_controller()
            raise BrokersUnreachable(f"the controller did not answer; last: {last}") from last

    def _why_no_controller(self) -> ClientError:
        is_known = self._cluster.metadata.updated_ms is not None
        return BrokersUnreachable("the cluster has no controller") if is_known else self._cluster.why_unreachable()
