"""librdkafka against Tidelog: an idempotent producer with delivery reports, then a consumer that reads one partition to its end."""

from __future__ import annotations

import os
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "example-confluent"


def produce() -> int:
    """Send ten records and return how many were acknowledged."""
    acknowledged = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            sys.exit(f"not delivered: {error}")
        acknowledged.append(message.offset())

    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "compression.type": "zstd"})
    for number in range(10):
        producer.produce(
            TOPIC, key=f"key-{number}", value=f"value-{number}", headers={"n": str(number)}, on_delivery=on_delivery
        )
    producer.flush(30)
    return len(acknowledged)


def consume() -> int:
    """Read partition 0 from its beginning to its end and return how many records it has."""
    consumer = Consumer(
        {"bootstrap.servers": BOOTSTRAP, "group.id": "none", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    count = 0
    while True:
        message = consumer.poll(30)
        if message is None:
            sys.exit("nothing came for 30 s")
        error = message.error()
        if error is None:
            print(f"{message.topic()}-{message.partition()}@{message.offset()} {message.key()!r} {message.value()!r}")
            count += 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # librdkafka names its own codes with an underscore
            break
        else:
            sys.exit(str(error))
    consumer.close()
    return count


if __name__ == "__main__":
    print(f"{produce()} acknowledged")
    print(f"{consume()} read")
