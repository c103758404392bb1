"""How the shop does at one moment: asked of the cluster as any client could, and heard from the driver."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Final

from tidelog.client import Admin, Cluster, Consumer, ConsumerConfig
from tidelog.client.errors import ClientError
from tidelog.client.metadata import TopicMetadata
from tidelog.model import ErrorCode, TopicPartition
from tidelog.pipeline.demo import orders
from tidelog.pipeline.demo.generator import PARTITIONS, Generator
from tidelog.pipeline.demo.spark import QueryState, SparkDriver
from tidelog.runtime import Runtime

READS: Final = {orders.CLEAN_QUERY: orders.ORDERS, orders.REVENUE_QUERY: orders.CLEANED}
WRITES: Final = {orders.CLEAN_QUERY: (orders.CLEANED, orders.REJECTED), orders.REVENUE_QUERY: (orders.REVENUE,)}
ANSWER_WITHIN_S: Final = 2.0
_REVENUE_SHOWN: Final = 8
_NEWS_SHOWN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryView:
    """A query: what it did, and how far it is behind."""

    name: str
    reads: str
    writes: tuple[str, ...]
    rows: int
    rows_per_s: float
    micro_batches: int
    micro_batch_ms: float
    lag: int | None  # records that wait; None before it is known
    watermark: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic and its replicas."""

    name: str
    partitions: int
    replicas: int
    in_sync: int
    without_leader: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker that lives."""

    broker_id: int
    address: str
    leaders: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevenueView:
    """A row that the pipeline wrote."""

    window_start: str
    category: str
    orders: int
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the cluster told, as of its last answer."""

    is_current: bool = False
    brokers: tuple[BrokerView, ...] = ()
    topics: tuple[TopicView, ...] = ()
    lags: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All there is to see at one moment."""

    elapsed_s: float
    brokers_wanted: int
    orders_sent: int
    orders_per_s: float
    queries: tuple[QueryView, ...]
    drivers_started: int
    cluster: Told
    revenue_rows: int
    revenue: tuple[RevenueView, ...]
    news: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every broker lives and every replica is in sync, as of now."""
        told = self.cluster
        is_in_sync = all(topic.in_sync == topic.replicas for topic in told.topics)
        return told.is_current and len(told.brokers) == self.brokers_wanted and is_in_sync

    def to_json(self) -> str:
        """One line for programs."""
        return json.dumps(asdict(self))


class Watch:
    """Looks at the cluster, the driver and the generator."""

    def __init__(self, runtime: Runtime, *, broker_count: int) -> None:
        self._clock = runtime.clock
        self._runtime = runtime
        self._broker_count = broker_count
        self._started_ms = self._clock.monotonic_ms()
        self._told = Told()
        self._revenue: deque[RevenueView] = deque(maxlen=_REVENUE_SHOWN)
        self._revenue_rows = 0
        self._news: deque[str] = deque(maxlen=_NEWS_SHOWN)
        self._admin: Admin | None = None
        self._consumer: Consumer | None = None

    @property
    def elapsed_s(self) -> float:
        """Since it began to watch."""
        return (self._clock.monotonic_ms() - self._started_ms) / 1000

    def note(self, news: str) -> None:
        """Something happened."""
        self._news.append(f"{self.elapsed_s:.0f} s  {news}")

    @asynccontextmanager
    async def connected(self, bootstrap: str) -> AsyncIterator[None]:
        """Be a client of the cluster for as long as the block lasts."""
        config = ConsumerConfig.from_properties(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "tidelog-demo",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "request.timeout.ms": str(int(ANSWER_WITHIN_S * 1000)),
                "default.api.timeout.ms": str(int(ANSWER_WITHIN_S * 1000)),
            }
        )
        async with Cluster(config, self._runtime) as cluster, Consumer(cluster, config, self._runtime) as consumer:
            self._admin = Admin(cluster, config, self._runtime)
            self._consumer = consumer
            consumer.assign([TopicPartition(orders.REVENUE, 0)])
            yield

    async def look(self, driver: SparkDriver, generator: Generator) -> Snapshot:
        """How things are now; what the cluster does not tell in time stays as it was told before."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                self._told = await self._ask()
                await self._read_revenue()
        except (ClientError, TimeoutError):
            self._told = replace(self._told, is_current=False)
        return self.snapshot(driver, generator)

    def snapshot(self, driver: SparkDriver, generator: Generator) -> Snapshot:
        """How things are as far as is known."""
        now_ms = self._clock.monotonic_ms()
        lags = dict(self._told.lags)
        return Snapshot(
            elapsed_s=round(self.elapsed_s, 1),
            brokers_wanted=self._broker_count,
            orders_sent=generator.sent,
            orders_per_s=round(generator.sent_per_s(now_ms), 1),
            queries=tuple(
                _query(name, driver.queries.get(name, QueryState()), lags.get(name), now_ms) for name in READS
            ),
            drivers_started=driver.starts,
            cluster=self._told,
            revenue_rows=self._revenue_rows,
            revenue=tuple(self._revenue),
            news=tuple(self._news),
        )

    async def _ask(self) -> Told:
        if self._admin is None or self._consumer is None:
            return self._told
        described = await self._admin.describe_cluster()
        answers = await self._admin.describe_topics(PARTITIONS)
        topics = [topic for topic in answers.values() if not isinstance(topic, ErrorCode)]
        keys = [TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions]
        ends = await self._consumer.end_offsets(keys)
        return Told(
            is_current=True,
            brokers=tuple(
                _broker(endpoint.broker_id, f"{endpoint.host}:{endpoint.port}", topics)
                for endpoint in described.brokers
            ),
            topics=tuple(
                _topic(topic, sum(end for key, end in ends.items() if key.topic == topic.name)) for topic in topics
            ),
            lags=tuple([(name, await self._lag(self._admin, name)) for name in READS]),
        )

    async def _lag(self, admin: Admin, group: str) -> int:
        """Records the query has not read yet: from what its group has committed, inside its own transactions, to what is committed there."""
        topic = READS[group]
        committed = (await admin.groups.committed_offsets([group]))[group]
        known = {} if isinstance(committed, ErrorCode) else committed
        keys = [TopicPartition(topic, index) for index in range(PARTITIONS[topic])]
        behind = await admin.groups.visible_records({key: known[key].offset if key in known else 0 for key in keys})
        return sum(answer.visible_count for answer in behind.values() if not isinstance(answer, ErrorCode))

    async def _read_revenue(self) -> None:
        if self._consumer is None:
            return
        for record in await self._consumer.poll():
            self._revenue_rows += 1
            self._revenue.append(RevenueView(**json.loads(record.value or b"{}")))


def _query(name: str, state: QueryState, lag: int | None, now_ms: float) -> QueryView:
    return QueryView(
        name=name,
        reads=READS[name],
        writes=WRITES[name],
        rows=state.rows,
        rows_per_s=round(state.rows_per_s(now_ms), 1),
        micro_batches=state.micro_batches,
        micro_batch_ms=state.duration_ms,
        lag=lag,
        watermark=state.watermark,
    )


def _topic(topic: TopicMetadata, end_offset: int) -> TopicView:
    return TopicView(
        name=topic.name,
        partitions=len(topic.partitions),
        replicas=sum(len(each.replicas) for each in topic.partitions),
        in_sync=sum(len(each.isr) for each in topic.partitions),
        without_leader=sum(not each.has_leader for each in topic.partitions),
        end_offset=end_offset,
    )


def _broker(broker_id: int, address: str, topics: Sequence[TopicMetadata]) -> BrokerView:
    partitions = [each for topic in topics for each in topic.partitions]
    return BrokerView(
        broker_id=broker_id,
        address=address,
        leaders=sum(each.leader.broker_id == broker_id for each in partitions),
        replicas=sum(broker_id in each.replicas for each in partitions),
    )
