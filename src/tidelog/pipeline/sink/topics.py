"""How many partitions the output topics have, as tasks need to know it: asked once and remembered for a while, in every worker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from tidelog.client import (
    Admin,
    BrokersUnreachable,
    ClientConfig,
    ClientError,
    ClientRuntime,
    Cluster,
    ConnectionLost,
    TopicMetadata,
)
from tidelog.model import ErrorCode
from tidelog.pipeline.sink.errors import SinkFailed, TopicMissing
from tidelog.pipeline.sink.kept import Kept
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.source.contact import Contact

T = TypeVar("T")

FRESH_MS: Final = 10_000
"""For so long nobody asks again: so late a task may notice that a topic has grown."""

_PATIENCE_MS: Final = 3_000  # with a topic that is being made, or whose brokers are being told of it
_LOOK_AGAIN_S: Final = 2.0
_CONTACTS_MAX: Final = 4


class _Known:
    """What one worker knows of one cluster."""

    def __init__(self, settings: SinkSettings) -> None:
        self.contact = Contact(settings.client_config())
        self.counts: dict[str, tuple[float, int]] = {}  # when it was asked, and the answer

    def close(self) -> None:
        self.contact.close()


_known: Final[Kept[str, _Known]] = Kept(_CONTACTS_MAX)
"""By the brokers that are asked first."""


class TopicCounts:
    """Partition counts that stay the same for as long as this object lives, which is one task, and no row knows better."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._counts: dict[str, int] = {}

    def of(self, topic: str, *, named: int = 0) -> int:
        """The number of partitions of a topic, a row of which names the partition `named`: a new one is asked for at once.

        Raises TopicMissing, or BrokersSilent where nobody answers.
        """
        count = self._counts.get(topic)
        if count is None:
            count = self._asked(topic, FRESH_MS)
        if named >= count:
            count = self._asked(topic, 0)
        self._counts[topic] = count
        return count

    def _asked(self, topic: str, fresh_ms: float) -> int:
        known = _known.of(self._settings.properties["bootstrap.servers"], lambda: _Known(self._settings))
        now_ms = known.contact.runtime.clock.monotonic_ms()
        asked_ms, count = known.counts.get(topic, (-FRESH_MS, 0))
        if now_ms - asked_ms >= fresh_ms:
            count = known.contact.run(
                partition_count(known.contact.cluster, known.contact.config, known.contact.runtime, topic)
            )
            known.counts[topic] = (now_ms, count)
        return count


async def partition_count(cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, topic: str) -> int:
    """How many partitions a topic has by now, which is waited for a little. Raises TopicMissing, or SinkFailed."""
    admin = Admin(cluster, config, runtime)
    missing_since_ms: float | None = None
    failures = 0
    trouble = "no answer"
    try:
        async with asyncio.timeout(config.default_api_timeout_ms / 1000):
            while True:
                try:
                    found = (await admin.describe_topics([topic]))[topic]
                except (BrokersUnreachable, ConnectionLost) as error:
                    trouble = str(error)
                else:
                    if isinstance(found, TopicMetadata):
                        return len(found.partitions)
                    now_ms = runtime.clock.monotonic_ms()
                    missing_since_ms = now_ms if missing_since_ms is None else missing_since_ms
                    if not found.is_retriable or now_ms - missing_since_ms >= _PATIENCE_MS:
                        raise _refused(topic, found)
                failures += 1
                await asyncio.sleep(config.retry_backoff.delay_ms(failures, runtime.randomness) / 1000)
    except TimeoutError:
        raise SinkFailed(f"no broker tells how many partitions topic {topic!r} has: {trouble}") from None


async def unless_missing(
    work: Coroutine[Any, Any, T],
    cluster: Cluster,
    config: ClientConfig,
    runtime: ClientRuntime,
    topics: Collection[str],
) -> T:
    """Wait for work that writes to these topics. Raises TopicMissing, and gives the work up, where one of them is deleted meanwhile.

    By itself a producer goes on for delivery.timeout.ms: for all it knows such a topic is being made.
    """
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_until_missing(cluster, config, runtime, topics), name="watches output topics")
            result = await work
            watching.cancel()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
    return result


async def _until_missing(
    cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, topics: Collection[str]
) -> None:
    while True:
        await asyncio.sleep(_LOOK_AGAIN_S)
        for topic in topics:
            try:
                # Whatever else stands in the way, the producer meets as well, and has its own patience with it.
                with suppress(ClientError):
                    await partition_count(cluster, config, runtime, topic)
            except TopicMissing:
                raise
            except SinkFailed:
                continue


def _refused(topic: str, code: ErrorCode) -> SinkFailed:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return TopicMissing(topic)
    return SinkFailed(f"topic {topic!r}, named by the option topic or the column topic, cannot be used: {code.name}")
