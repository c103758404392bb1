"""One process that reads `safe` as a member of a group: polls, processes, commits what it has processed, and looks at what is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client import (
    ClientError,
    Committed,
    ConsumedRecord,
    Consumer,
    ConsumerConfig,
    LogTruncated,
    OffsetOutOfRange,
)
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.group_history import NOTHING_COMMITTED, Commit, Fate, How, Owner
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import SAFE, History
from tidelog.simulation.workloads.workload import PATIENCE

SESSION_MS: Final = 2_500
MAX_POLL_INTERVAL_MS: Final = 3_500
MEMBER_SETTINGS: Final[Mapping[str, str]] = {
    **PATIENCE,
    "max.poll.interval.ms": str(MAX_POLL_INTERVAL_MS),
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "fetch.min.bytes": "4000",
    "fetch.max.wait.ms": "800",
    "metadata.max.age.ms": "20000",
}
_POLL_MS: Final = 800
_AFTER_AN_ERROR_S: Final = 0.2
_COMMITS_ONE_IN: Final = 2  # polls with records; so some are read again after a rebalance
_LOOKS_ONE_IN: Final = 6
_STALLS_ONE_IN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """What a member is told by whoever starts it."""

    group: str
    config: ConsumerConfig
    is_careful: bool  # commits before it gives partitions up
    on_processed: Callable[[], None] = lambda: None
    topic: str = SAFE


class Member:
    """Lives until it is told to stop, or dies with its process. Nothing of it is used by another process."""

    def __init__(self, process: str, plan: MemberPlan, history: History, randomness: SimulatedRandomness) -> None:
        self.process = process
        self._plan = plan
        self._history = history
        self._groups = history.groups
        self._randomness = randomness
        self._consumer: Consumer | None = None
        self._owner = Owner(process, process)
        self._owned: dict[TopicPartition, None] = {}
        self._uncommitted: dict[TopicPartition, Committed] = {}
        self._is_polling = False
        self._epoch_max = 0
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()

    def stop(self) -> None:
        """Leave the group and end."""
        self._stopping.set()
        self._hurrying.set()

    def hurry(self) -> None:
        """Stall no more, and commit everything at once, so that all comes to rest."""
        self._hurrying.set()

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """What it believes to own."""
        return tuple(self._owned)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was processed is committed."""
        return not self._uncommitted

    async def run(self, runtime: Runtime) -> None:
        """One consumer after the other, as long as faults break them."""
        while not self._stopping.is_set():
            try:
                async with Consumer.connect(self._plan.config, runtime) as consumer:
                    self._consumer = consumer
                    await self._consume(consumer)
            except (OffsetOutOfRange, LogTruncated) as error:
                self._history.protest(self.process, str(error))
                return
            except ClientError:
                await asyncio.sleep(_AFTER_AN_ERROR_S)
            finally:
                self._groups.end(self.process)
                self._owned.clear()
                self._uncommitted.clear()

    async def _consume(self, consumer: Consumer) -> None:
        consumer.group.subscribe(
            [self._plan.topic], on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_lost=self._on_lost
        )
        while not self._stopping.is_set():
            self._is_polling = True
            try:
                records = await consumer.poll(timeout_ms=_POLL_MS)
            finally:
                self._is_polling = False
            for record in records:
                self._process(record)
            await self._after_poll(consumer, has_news=bool(records))
        await self._commit(consumer)

    async def _after_poll(self, consumer: Consumer, *, has_news: bool) -> None:
        self._epoch()
        if self._uncommitted and (self._hurrying.is_set() or (has_news and self._draws(_COMMITS_ONE_IN))):
            await self._commit(consumer)
        if has_news and self._owned and self._draws(_LOOKS_ONE_IN):
            await self._look(consumer)
        if has_news and not self._hurrying.is_set() and self._draws(_STALLS_ONE_IN):
            await self._wait_ms(self._randomness.between(0, 2 * MAX_POLL_INTERVAL_MS))

    def _process(self, record: ConsumedRecord) -> None:
        self._plan.on_processed()
        self._uncommitted[record.topic_partition] = Committed(record.offset + 1, record.leader_epoch)
        self._groups.process(self._plan.group, record.topic_partition, record.offset, record.value or b"")

    # Partitions come and go.

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        epoch = self._epoch()
        identity = self._metadata_identity()
        self._owner = Owner(self.process, identity)
        self._owned.update(dict.fromkeys(partitions))
        self._groups.gain(self._plan.group, self._owner, epoch, partitions)

    async def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Told by the group while it polls; otherwise the consumer is being closed, and may have been put out without knowing."""
        how = How.REVOKED if self._is_polling else How.GONE
        if self._consumer is not None and self._plan.is_careful and how is How.REVOKED:
            await self._commit(self._consumer)
        self._release(partitions, how)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._release(partitions, How.LOST)

    def _release(self, partitions: list[TopicPartition], how: How) -> None:
        self._groups.release(self._plan.group, self._owner, self._epoch(), partitions, how)
        for topic_partition in partitions:
            self._owned.pop(topic_partition, None)
            self._uncommitted.pop(topic_partition, None)

    # Offsets.

    async def _commit(self, consumer: Consumer) -> None:
        group, wanted = self._plan.group, dict(self._uncommitted)
        if not wanted:
            return
        epoch = self._epoch()
        commits = {
            topic_partition: self._groups.ask(
                group,
                topic_partition,
                Commit(by=self.process, offset=committed.offset, asked=self._groups.now(), epoch=epoch),
            )
            for topic_partition, committed in wanted.items()
        }
        fate = Fate.UNKNOWN  # An attempt that nobody answered may have been heeded before another one was refused.
        try:
            await consumer.group.commit(wanted)
            fate = Fate.ACKNOWLEDGED
        except ClientError:
            pass
        self._epoch()
        for topic_partition, commit in commits.items():
            self._groups.answer(group, topic_partition, commit, fate, self._epoch_max)
            if fate is Fate.ACKNOWLEDGED and self._uncommitted.get(topic_partition) == wanted[topic_partition]:
                del self._uncommitted[topic_partition]

    async def _look(self, consumer: Consumer) -> None:
        wanted, asked = tuple(self._owned), self._groups.now()
        for topic_partition, committed in (await consumer.group.committed(wanted)).items():
            offset = NOTHING_COMMITTED if committed is None else committed.offset
            self._groups.show(self._plan.group, topic_partition, offset, asked=asked, to=self.process)

    # Who it is.

    def _epoch(self) -> int:
        epoch = 0 if self._consumer is None else self._consumer.group.membership().generation
        self._epoch_max = max(self._epoch_max, epoch)
        return epoch

    def _metadata_identity(self) -> str:
        if self._consumer is None:
            return self.process
        metadata = self._consumer.group.membership()
        return metadata.instance_id or metadata.member_id

    def _draws(self, one_in: int) -> bool:
        return self._randomness.below(one_in) == 0

    async def _wait_ms(self, duration_ms: float) -> None:
        try:
            async with asyncio.timeout(duration_ms / 1000):
                await self._hurrying.wait()
        except TimeoutError:
            return
