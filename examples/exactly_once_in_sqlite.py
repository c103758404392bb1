"""No duplicates: the offset is stored in the same SQLite transaction as the result, and is the lock that two readers compete for.

A reader dies, another takes over, and the first comes back from the dead with records in its hands. Each payment counts once.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from tidelog.client import ConsumedRecord, Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.model import TopicPartition
from tidelog.runtime.real import real_runtime

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "example-payments"
PAYMENTS = 20
RUNTIME = real_runtime()

SCHEMA = """
CREATE TABLE balance (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE positions (topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition));
"""


class Overtaken(Exception):
    """Somebody else has moved on from where this reader thinks it is."""


class Ledger:
    """Results and positions in one database."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def position(self, partition: TopicPartition) -> int:
        """The next offset that nobody has applied yet."""
        row = self._db.execute(
            "SELECT next_offset FROM positions WHERE topic = ? AND partition = ?", partition
        ).fetchone()
        return int(row[0])

    def apply(self, record: ConsumedRecord, expected: int) -> int:
        """Add a payment and move on, both or neither; returns the next position. Raises Overtaken."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            moved = self._db.execute(
                "UPDATE positions SET next_offset = ? WHERE topic = ? AND partition = ? AND next_offset = ?",
                (record.offset + 1, *record.topic_partition, expected),
            )
            if moved.rowcount != 1:
                raise Overtaken(f"{record.topic_partition}: expected to stand at {expected}")
            self._db.execute(
                "INSERT INTO balance VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount",
                ((record.key or b"").decode(), int(record.value or b"0")),
            )
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return record.offset + 1

    def balance(self) -> int:
        """What all payments come to."""
        return int(self._db.execute("SELECT coalesce(sum(amount), 0) FROM balance").fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


async def read_some(partition: TopicPartition, start: int, count: int) -> list[ConsumedRecord]:
    """So many records from an offset on."""
    config = ConsumerConfig.from_properties({"bootstrap.servers": BOOTSTRAP})
    records: list[ConsumedRecord] = []
    async with Consumer.connect(config, RUNTIME) as consumer, asyncio.timeout(30):
        consumer.assign([partition])
        consumer.seek(partition, start)
        while len(records) < count:
            records += await consumer.poll(max_records=count - len(records), timeout_ms=1000)
    return records


async def main() -> None:
    """Two readers, one of them a zombie."""
    to_send = ProducerConfig.from_properties({"bootstrap.servers": BOOTSTRAP})
    async with Producer.connect(to_send, RUNTIME) as producer:
        sent = [await producer.send_and_wait(TOPIC, b"1", key=b"alice", partition=0) for _ in range(PAYMENTS)]
    partition, start = sent[0].topic_partition, sent[0].offset

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with closing(sqlite3.connect(path)) as db:
            db.executescript(SCHEMA)
            db.execute("INSERT INTO positions VALUES (?, ?, ?)", (*partition, start))
            db.commit()
        with closing(Ledger(path)) as first, closing(Ledger(path)) as second:
            # The first reader has all records in its hands, applies twelve, and stops answering.
            in_hand = await read_some(partition, first.position(partition), PAYMENTS)
            position = start
            for record in in_hand[:12]:
                position = first.apply(record, position)
            print(f"the first reader applied 12, balance {first.balance()}, and is gone")

            # The second goes on where the database says, not where a group last committed.
            at = second.position(partition)
            for record in await read_some(partition, at, start + PAYMENTS - at):
                at = second.apply(record, at)
            print(f"the second reader applied the rest, balance {second.balance()}")

            # The first wakes up and goes on with what it had.
            try:
                first.apply(in_hand[12], position)
            except Overtaken as reason:
                print(f"the first reader was stopped: {reason}")
            else:
                raise SystemExit("a payment was counted twice")
            if second.balance() != PAYMENTS:
                raise SystemExit(f"{PAYMENTS} payments come to {second.balance()}")
    print(f"{PAYMENTS} payments, balance {PAYMENTS}: no duplicates")


if __name__ == "__main__":
    asyncio.run(main())
