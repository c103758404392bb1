"""Asking every broker of a cluster, until all have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost, RequestRefused
from tidelog.model import BrokerId

T = TypeVar("T")


async def ask_everywhere(
    cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, ask: Callable[[BrokerId], Awaitable[T]]
) -> dict[BrokerId, T]:
    """The answer of every broker there is. Those that fail are asked again, for default.api.timeout.ms.

    Raises what the last of them failed with (RequestRefused, ConnectionLost or BrokersUnreachable) rather than leave one out.
    """
    heard: dict[BrokerId, T] = {}
    failure: ClientError | None = None
    failures = 0
    try:
        async with asyncio.timeout(config.default_api_timeout_ms / 1000):
            while True:
                await cluster.refresh()
                brokers = sorted(cluster.metadata.brokers)
                for node in [node for node in brokers if node not in heard]:
                    try:
                        heard[node] = await ask(node)
                    except (ConnectionLost, BrokersUnreachable, RequestRefused) as error:
                        failure = error
                if all(node in heard for node in brokers):
                    return heard
                failures += 1
                await asyncio.sleep(config.retry_backoff.delay_ms(failures, runtime.randomness) / 1000)
    except TimeoutError:
        raise failure or cluster.why_unreachable() from None
