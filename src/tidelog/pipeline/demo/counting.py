"""What came out, against what must: every order once, in one of two topics, and the revenue of every window, once and right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidelog.client import Admin, Consumer, ConsumerConfig
from tidelog.client.fetched import ConsumedRecord
from tidelog.model import TopicPartition
from tidelog.pipeline.demo import orders
from tidelog.pipeline.demo.generator import PARTITIONS
from tidelog.pipeline.demo.orders import Order, Revenue, Window
from tidelog.runtime import Runtime

OUTPUT: Final = (orders.CLEANED, orders.REJECTED, orders.REVENUE)
_POLL_MS: Final = 1_000.0
_SETTLED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome in numbers; `is_exact` is what it is all about."""

    records_in: int
    records_out: int
    lost: int
    duplicated: int
    misjudged: int  # cleaned although it must be rejected, or the other way round, or an order nobody sent
    windows: int
    windows_missing: int
    windows_duplicated: int
    windows_wrong: int
    open_transactions: int

    @property
    def is_exact(self) -> bool:
        """Whether every order is reflected exactly once."""
        faults = (
            self.lost,
            self.duplicated,
            self.misjudged,
            self.windows_missing,
            self.windows_duplicated,
            self.windows_wrong,
            self.open_transactions,
        )
        return not any(faults)


class Tally:
    """What was read of the output so far."""

    def __init__(self) -> None:
        self.cleaned: Counter[bytes] = Counter()
        self.rejected: Counter[bytes] = Counter()
        self.revenue: dict[Window, list[Revenue]] = {}

    @property
    def order_count(self) -> int:
        """How many different orders have come out."""
        return len(self.cleaned.keys() | self.rejected.keys())

    def add(self, records: Iterable[ConsumedRecord]) -> None:
        """Count these, too."""
        for record in records:
            match record.topic_partition.topic:
                case orders.CLEANED:
                    self.cleaned[record.key or b""] += 1
                case orders.REJECTED:
                    self.rejected[record.key or b""] += 1
                case _:
                    window, revenue = revenue_in(record.value or b"{}")
                    self.revenue.setdefault(window, []).append(revenue)


def judge(
    tally: Tally, sent: Mapping[bytes, Order], expected: Mapping[Window, Revenue], *, open_transactions: int = 0
) -> Verdict:
    """Compare what came out with the orders that were sent, by their ids, and with the revenue they make."""
    out = tally.cleaned + tally.rejected
    misjudged = [key for key in tally.cleaned if key not in sent or sent[key].reason is not None]
    misjudged += [key for key in tally.rejected if key not in sent or sent[key].reason is None]
    found = tally.revenue
    return Verdict(
        records_in=len(sent),
        records_out=out.total(),
        lost=sum(key not in out for key in sent),
        duplicated=sum(count - 1 for count in out.values()),
        misjudged=len(misjudged),
        windows=len(expected),
        windows_missing=sum(window not in found for window in expected),
        windows_duplicated=sum(len(rows) - 1 for rows in found.values()),
        windows_wrong=sum(any(row != expected.get(window) for row in rows) for window, rows in found.items()),
        open_transactions=open_transactions,
    )


def revenue_in(value: bytes) -> tuple[Window, Revenue]:
    """A record of the topic of revenue."""
    row = json.loads(value)
    start = datetime.fromisoformat(row["window_start"])
    return Window(int(start.timestamp() * 1000), row["category"]), Revenue(orders=row["orders"], cents=row["cents"])


class Reader:
    """Reads the output as a reader of committed records gets it, and counts."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._keys = [TopicPartition(name, index) for name in OUTPUT for index in range(PARTITIONS[name])]
        self.tally = Tally()
        consumer.assign(self._keys)

    async def catch_up(self) -> Tally:
        """Read up to the end there is now. Raises ClientError, and can then be asked again."""
        ends = await self._consumer.end_offsets(self._keys)
        while [key for key, end in ends.items() if await self._consumer.position(key) < end]:
            self.tally.add(await self._consumer.poll(timeout_ms=_POLL_MS))
        return self.tally


@asynccontextmanager
async def reading(bootstrap: str, runtime: Runtime) -> AsyncIterator[Reader]:
    """A reader that begins at the beginning."""
    async with Consumer.connect(_reading(bootstrap), runtime) as consumer:
        yield Reader(consumer)


async def open_transactions(bootstrap: str, runtime: Runtime) -> list[str]:
    """The transactional ids that have a transaction open, or on its way."""
    async with Admin.connect(_reading(bootstrap), runtime) as admin:
        return [one.transactional_id for one in await admin.transactions.list() if one.state not in _SETTLED]


def _reading(bootstrap: str) -> ConsumerConfig:
    return ConsumerConfig.from_properties(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "tidelog-demo",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "max.poll.records": "5000",
        }
    )
