"""Tidelog's own client: an idempotent producer and a consumer that is told what to read, on one event loop."""

from __future__ import annotations

import asyncio
import os

from tidelog.client import Consumer, Producer

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "example-tidelog"


async def main() -> None:
    """Send ten records, without waiting for each, and read them back."""
    async with Producer(BOOTSTRAP, {"compression.type": "lz4"}) as producer:
        deliveries = [
            await producer.send(TOPIC, f"value-{n}".encode(), key=b"k", headers=[("n", b"%d" % n)]) for n in range(10)
        ]
        first, *_, last = [await delivery for delivery in deliveries]
    print(f"acknowledged: {first.topic_partition}, offsets {first.offset} to {last.offset}")

    async with Consumer(BOOTSTRAP) as consumer, asyncio.timeout(30):
        consumer.assign([first.topic_partition])
        consumer.seek(first.topic_partition, first.offset)
        async for record in consumer:
            print(f"{record.topic_partition}@{record.offset} {record.key!r} {record.value!r} {record.headers}")
            if record.offset == last.offset:
                break


if __name__ == "__main__":
    asyncio.run(main())
