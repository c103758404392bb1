"""What there is to read: which partitions a subscription means, and where their logs begin and end.

Every question has a bound (default.api.timeout.ms in all), and an error says who did not answer it.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.client import Admin, BrokersUnreachable, ClientError, Cluster, FoundOffset, TopicMetadata
from tidelog.client.offsets import EARLIEST, LATEST, OffsetLookup
from tidelog.model import ErrorCode, IsolationLevel, TimestampMs, TopicId, TopicPartition
from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.source.errors import BrokersSilent, TopicMissing, TopicRefused
from tidelog.pipeline.source.offsets import Positions, Whose
from tidelog.pipeline.source.options import ByName, ByPartition, ByPattern, SourceOptions
from tidelog.runtime import Runtime

APPEARANCE_MS: Final = 3_000.0
"""A broker may not have heard yet of a topic that was just made; who is unknown for longer is not there."""

_NAMED_MAX: Final = 5
_SAYS_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Survey:
    """Asks the cluster on behalf of one query."""

    def __init__(self, cluster: Cluster, options: SourceOptions, runtime: Runtime) -> None:
        self._cluster = cluster
        self._options = options
        self._config = options.client
        self._runtime = runtime
        self._admin = Admin(cluster, options.client, runtime)
        self.isolation_level = options.client.isolation_level
        self.topic_ids: dict[str, TopicId] = {}
        """Of the topics of the subscription when they were last looked at, where brokers tell ids."""

    @property
    def option(self) -> str:
        """The option that says what to read."""
        match self._options.subscription:
            case ByName():
                return "subscribe"
            case ByPartition():
                return "assign"
            case ByPattern():
                return "subscribePattern"

    @property
    def whose(self) -> Whose:
        """Whose offsets this survey finds."""
        return Whose(cluster_id=self._cluster.metadata.cluster_id, topic_ids=dict(self.topic_ids))

    async def partitions(self) -> list[TopicPartition]:
        """The partitions to read, sorted. Raises TopicMissing where one that was named is not there."""
        found = await self._described(patience_ms=APPEARANCE_MS)
        missing = [name for name, topic in found.items() if not isinstance(topic, TopicMetadata)]
        if missing:
            raise TopicMissing(await self._explain_missing(missing[0]))
        partitions = self._wanted(found)
        if isinstance(self._options.subscription, ByPartition):
            for key in self._options.subscription.partitions:
                if key not in partitions:
                    raise TopicMissing(f"Option assign: topic {key.topic!r} has no partition {key.index}")
        return partitions

    async def partitions_left(self) -> list[TopicPartition]:
        """The partitions to read that are there, sorted. Only what brokers say does not exist is not there."""
        return self._wanted(await self._described(patience_ms=0))

    def unwanted(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that the subscription does not mean, whether they are there or not."""
        match self._options.subscription:
            case ByName(topics):
                return [key for key in partitions if key.topic not in topics]
            case ByPartition(wanted):
                return [key for key in partitions if key not in wanted]
            case ByPattern(pattern):
                return [key for key in partitions if not pattern.fullmatch(key.topic)]

    async def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Where each log begins."""
        return await self._ends(partitions, EARLIEST)

    async def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Where each log ends for a reader of this isolation level: the last stable offset, or the high watermark."""
        return await self._ends(partitions, LATEST)

    async def latest_undecided(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Where each log ends, decided or not: the high watermark."""
        return await self._ends(partitions, LATEST, IsolationLevel.READ_UNCOMMITTED)

    async def _ends(
        self, partitions: Iterable[TopicPartition], end: TimestampMs, level: IsolationLevel | None = None
    ) -> Positions:
        found = await self.find(dict.fromkeys(partitions, end), level)
        return {key: 0 if answer is None else answer.offset for key, answer in found.items()}

    async def find(
        self, wanted: Mapping[TopicPartition, TimestampMs], level: IsolationLevel | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first offset at or after each time, for a reader of this isolation level; None where the log has nothing so young.

        Raises TopicMissing, or BrokersSilent after default.api.timeout.ms.
        """
        lookup = OffsetLookup(
            self._cluster, self._config, self._runtime, self.isolation_level if level is None else level
        )
        found: dict[TopicPartition, FoundOffset | None] = {}
        failures = 0
        timeout_ms = self._config.default_api_timeout_ms
        began_ms = self._runtime.clock.monotonic_ms()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while missing := {key: wanted[key] for key in wanted if key not in found}:
                    for key, answer in (await lookup.ask(missing)).items():
                        if isinstance(answer, ClientError):
                            raise BrokersSilent(f"where {key} begins and ends was not told: {answer}") from answer
                        found[key] = answer
                    if len(found) < len(wanted):
                        failures += 1
                        self._check_known(missing, waited_ms=self._runtime.clock.monotonic_ms() - began_ms)
                        await self._pause(failures)
        except TimeoutError:
            silent = [key for key in wanted if key not in found]
            raise BrokersSilent(
                f"where {_some(silent)} begins and ends was not told within {timeout_ms / 1000:g} s: "
                + "; ".join(self._why_silent(key) for key in silent[:_NAMED_MAX])
            ) from None
        return found

    def _check_known(self, keys: Iterable[TopicPartition], *, waited_ms: float) -> None:
        metadata = self._cluster.metadata
        for key in keys:
            is_unknown = metadata.error_of(key.topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if waited_ms > APPEARANCE_MS and is_unknown and metadata.topic(key.topic) is None:
                raise TopicMissing(f"topic {key.topic!r} is not there any more")

    def _why_silent(self, key: TopicPartition) -> str:
        leader = self._cluster.metadata.leader_of(key)
        if leader is not None:
            endpoint = self._cluster.metadata.brokers[leader.broker_id]
            return f"{key}: its leader, broker {leader.broker_id} at {endpoint.host}:{endpoint.port}, gives no answer"
        code = self._cluster.metadata.error_of(key.topic)
        return f"{key}: nobody leads it" + ("" if code is ErrorCode.NONE else f" ({code.name})")

    async def _described(self, *, patience_ms: float) -> dict[str, TopicMetadata | ErrorCode]:
        """What is known of each topic of the subscription; one that was named is waited for, for a little.

        Raises TopicRefused for a topic that brokers do not let us see, or do not tell about for default.api.timeout.ms.
        """
        began_ms = self._runtime.clock.monotonic_ms()
        failures = 0
        timeout_ms = self._config.default_api_timeout_ms
        last: Exception | None = None
        refused: TopicRefused | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        found = await self._admin.describe_topics(await self._names())
                    except BrokersUnreachable as error:
                        last = error
                    else:
                        waited_ms = self._runtime.clock.monotonic_ms() - began_ms
                        refused = refusal_in(found)
                        is_all_there = all(isinstance(each, TopicMetadata) for each in found.values())
                        if refused is None and (is_all_there or waited_ms >= patience_ms):
                            return found
                    failures += 1
                    await self._pause(failures)
        except TimeoutError:
            if refused is not None:
                raise refused from None
            raise BrokersSilent(f"which topics there are was not told within {timeout_ms / 1000:g} s: {last}") from last

    async def _names(self) -> Sequence[str]:
        match self._options.subscription:
            case ByName(topics):
                return topics
            case ByPartition(partitions):
                return list(dict.fromkeys(key.topic for key in partitions))
            case ByPattern(pattern):
                includes_internal = not self._config.exclude_internal_topics
                names = await self._admin.list_topics(include_internal=includes_internal)
                return [name for name in names if pattern.fullmatch(name)]

    def _wanted(self, found: Mapping[str, TopicMetadata | ErrorCode]) -> list[TopicPartition]:
        subscription = self._options.subscription
        self.topic_ids = {
            name: topic.topic_id
            for name, topic in found.items()
            if isinstance(topic, TopicMetadata) and topic.topic_id is not None
        }
        there = [
            TopicPartition(name, partition.index)
            for name, topic in found.items()
            if isinstance(topic, TopicMetadata)
            for partition in topic.partitions
        ]
        if isinstance(subscription, ByPartition):
            there = [key for key in there if key in subscription.partitions]
        return sorted(there)

    async def _explain_missing(self, name: str) -> str:
        servers = ",".join(map(str, self._config.bootstrap_servers))
        near = difflib.get_close_matches(name, await self._admin.list_topics(), n=3)
        advice = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return f"Option {self.option}: topic {name!r} does not exist at {servers}{advice}"

    async def _pause(self, failures: int) -> None:
        await asyncio.sleep(self._config.retry_backoff.delay_ms(failures, self._runtime.randomness) / 1000)


def refusal_in(found: Mapping[str, TopicMetadata | ErrorCode]) -> TopicRefused | None:
    """What stands in the way of knowing whether a topic is there. Raises it where asking again would not help."""
    for name, answer in found.items():
        if isinstance(answer, ErrorCode) and answer not in _SAYS_UNKNOWN:
            refusal = TopicRefused(f"topic {name!r} cannot be read: brokers answer {answer.name}")
            if not answer.is_retriable:
                raise refusal
            return refusal
    return None


def check_named(option: str, named: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    """Raise OptionRefused unless a mapping by partition names all partitions that are read and no others, as Spark's own source wants it."""
    missing, strange = sorted(set(partitions) - set(named)), sorted(set(named) - set(partitions))
    if missing:
        raise OptionRefused(option, f"it must name every partition that is read, and {_some(missing)} is not named")
    if strange:
        raise OptionRefused(option, f"it names {_some(strange)}, which is not among the partitions that are read")


def _some(keys: Sequence[TopicPartition]) -> str:
    rest = f" and {len(keys) - _NAMED_MAX} more" if len(keys) > _NAMED_MAX else ""
    return ", ".join(map(str, keys[:_NAMED_MAX])) + rest
