"""Written here, finished there: two processes write a part each, and a third decides when both are done. Both parts are read, or neither.

Each worker prepares its transaction, hands over one line of text, and is gone. Whoever decides writes down the lines and the decision in
SQLite before it tells the brokers: if it died in between, it would tell them the same again.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import uuid
from contextlib import closing

from tidelog.client import (
    ClientConfig,
    Cluster,
    Consumer,
    ConsumerConfig,
    PreparedTransaction,
    Producer,
    ProducerConfig,
    finish_transaction,
)
from tidelog.model import TopicPartition
from tidelog.runtime.real import real_runtime

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
RUNTIME = real_runtime()
PAGES = 3
SCHEMA = (
    "CREATE TABLE decisions (report TEXT, handed_over TEXT, is_committed INTEGER, PRIMARY KEY (report, handed_over))"
)


async def write_part(topic: str, report: str, part: str) -> None:
    """A worker: writes its part, prepares, prints the line to hand over. Knows nothing of the others."""
    properties = {"bootstrap.servers": BOOTSTRAP, "transactional.id": f"{topic}-{part}"}
    async with Producer.connect(ProducerConfig.from_properties(properties), RUNTIME) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        for page in range(PAGES):
            await producer.send(topic, f"{report}, {part} {page}".encode(), partition=0)
        print(await producer.prepare_transaction())


async def work(topic: str, report: str, part: str, *, fails: bool) -> str | None:
    """Have a worker do its part in a process of its own; the line it hands over, or None if it fails."""
    if fails:
        return None
    command = [sys.executable, __file__, topic, report, part]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return said.decode().strip() if process.returncode == 0 else None


async def publish(db: sqlite3.Connection, topic: str, report: str, *, has_failure: bool) -> bool:
    """Commit both parts, or abort what there is; returns which."""
    lines = [await work(topic, report, "text", fails=False), await work(topic, report, "tables", fails=has_failure)]
    handed_over = [line for line in lines if line is not None]
    is_committed = len(handed_over) == len(lines)
    with db:
        db.executemany("INSERT INTO decisions VALUES (?, ?, ?)", [(report, line, is_committed) for line in handed_over])

    # From here on it is decided. What follows may be repeated as often as one likes, here or elsewhere.
    config = ClientConfig.from_properties({"bootstrap.servers": BOOTSTRAP})
    async with Cluster(config, RUNTIME) as cluster:
        for (line,) in db.execute("SELECT handed_over FROM decisions WHERE report = ?", (report,)).fetchall():
            prepared = PreparedTransaction.parse(line)
            await finish_transaction(cluster, config, RUNTIME, prepared, is_committed=is_committed)
    print(f"{report}: {len(handed_over)} of {len(lines)} parts came, {'committed' if is_committed else 'aborted'}")
    return is_committed


async def read(topic: str, count: int) -> list[str]:
    """So many records, only what is committed."""
    config = ConsumerConfig.from_properties({"bootstrap.servers": BOOTSTRAP, "isolation.level": "read_committed"})
    found: list[str] = []
    async with Consumer.connect(config, RUNTIME) as consumer, asyncio.timeout(30):
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        while len(found) < count:
            found += [(record.value or b"").decode() for record in await consumer.poll(timeout_ms=1000)]
    return found


async def main() -> None:
    """Three reports; a worker fails in the second one."""
    topic = f"example-reports-{uuid.uuid4().hex[:8]}"
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(SCHEMA)
        outcomes = [await publish(db, topic, f"report {number}", has_failure=number == 2) for number in (1, 2, 3)]
    found = await read(topic, count=4 * PAGES)
    print("\n".join(found))
    if outcomes != [True, False, True] or any("report 2" in each for each in found) or len(found) != 4 * PAGES:
        raise SystemExit("that is not what this example says")


if __name__ == "__main__":
    asyncio.run(write_part(*sys.argv[1:]) if sys.argv[1:] else main())
