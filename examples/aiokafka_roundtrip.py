"""asyncio with aiokafka against Tidelog: records with headers, compressed, sent and read back."""

from __future__ import annotations

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "example-aiokafka"


async def main() -> None:
    """Send ten records and read them back."""
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all", compression_type="gzip") as producer:
        deliveries = [
            await producer.send(
                TOPIC, key=b"k", value=f"value-{number}".encode(), headers=[("number", str(number).encode())]
            )
            for number in range(10)
        ]
        first, *_, last = [await delivery for delivery in deliveries]
    print(f"offsets {first.offset} to {last.offset}")

    async with AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP) as consumer:
        partition = TopicPartition(TOPIC, first.partition)
        consumer.assign([partition])
        consumer.seek(partition, first.offset)
        for _ in range(10):
            record = await asyncio.wait_for(consumer.getone(), 30)
            print(f"{record.topic}-{record.partition}@{record.offset} {record.value!r} {dict(record.headers)}")
    print("10 read")


if __name__ == "__main__":
    asyncio.run(main())
