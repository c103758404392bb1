"""The way from a process of Spark to the brokers: opened when it is first needed, and never waited for without a bound."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tidelog.client import ClientError, Cluster, ConnectionLimits, ConnectionLost, ConsumerConfig, open_connection
from tidelog.client.bridge import Bridge
from tidelog.pipeline.source.errors import BrokersSilent
from tidelog.runtime import Address, Runtime
from tidelog.runtime.real import real_runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare
from tidelog.wire.messages.metadata import MetadataRequest

T = TypeVar("T")

REFUSALS_ENOUGH: Final = 3
REFUSED_TIMEOUT_MS: Final = 4_000.0
"""Brokers that refuse so often, for so long, are taken at their word; a cluster that restarts is waited for a little."""

SILENCE_TIMEOUT_MS: Final = 15_000.0
"""For the first answer of any broker, where nobody says anything: long enough for a busy machine."""

_EXPLAIN_TIMEOUT_MS: Final = 2_000  # for the one question that tells what is wrong with an address
_EXPLAINED_ADDRESSES: Final = 5


class Contact:
    """A cluster's client for callers that block. Belongs to the process that opened it. Raises BrokersSilent when it is made."""

    def __init__(self, config: ConsumerConfig) -> None:
        # The first codec imports the layouts of all messages. That is no broker's fault, and must not count against its time.
        prepare([ApiKey.API_VERSIONS])
        self.config = config
        self.runtime: Runtime = real_runtime()
        self._bridge = Bridge()
        try:
            self.cluster = self._bridge.hold(Cluster(config, self.runtime))
            self.run(_first_answer(self.cluster, config, self.runtime))
        except BaseException:
            self._bridge.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns, or raises; it bounds itself."""
        return self._bridge.run(work)

    def close(self) -> None:
        """Let go of all connections. Harmless when done twice."""
        self._bridge.close()


async def _first_answer(cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> None:
    began_ms = runtime.clock.monotonic_ms()
    failures: list[ClientError] = []
    try:
        async with asyncio.timeout(min(SILENCE_TIMEOUT_MS, config.default_api_timeout_ms) / 1000):
            while len(failures) < REFUSALS_ENOUGH or runtime.clock.monotonic_ms() - began_ms < REFUSED_TIMEOUT_MS:
                try:
                    await cluster.request(None, MetadataRequest(topics=(), allow_auto_topic_creation=False))
                except ClientError as failure:
                    failures.append(failure)
                else:
                    return
                await asyncio.sleep(config.retry_backoff.delay_ms(len(failures), runtime.randomness) / 1000)
    except TimeoutError:
        pass
    waited_s = (runtime.clock.monotonic_ms() - began_ms) / 1000
    raise BrokersSilent(
        f"no broker of the option kafka.bootstrap.servers answered within {waited_s:.0f} s, in {len(failures)} attempts: "
        + "; ".join(await _explained(config, runtime))
    ) from (failures[-1] if failures else None)


async def _explained(config: ConsumerConfig, runtime: Runtime) -> list[str]:
    """What each address has to say for itself."""
    addresses = config.bootstrap_servers[:_EXPLAINED_ADDRESSES]
    return await asyncio.gather(*(_explain(address, config, runtime) for address in addresses))


async def _explain(address: Address, config: ConsumerConfig, runtime: Runtime) -> str:
    limits = ConnectionLimits(
        client_id=config.client_id,
        setup_timeout_ms=_EXPLAIN_TIMEOUT_MS,
        request_timeout_ms=_EXPLAIN_TIMEOUT_MS,
        in_flight_max=1,
        receive_bytes_max=config.receive_message_max_bytes,
    )
    try:
        connection = await open_connection(runtime.network, address, limits)
    except ConnectionLost as loss:
        is_deaf = any(word in loss.reason for word in ("closed by", "reset by", "announced"))
        return f"{address}: {_reason(loss)}" + (" (is this a PLAINTEXT listener of a broker?)" if is_deaf else "")
    connection.close()
    return f"{address}: answers now"


def _reason(loss: ConnectionLost) -> str:
    """What the operating system calls it, where it was the one to say no: asyncio's own words do not tell refused from unreachable."""
    cause: BaseException | None = loss
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else loss.reason  # failures of DNS are negative
