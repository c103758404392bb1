"""kafka-python against Tidelog: a compacted topic as a table, with a key written, overwritten and deleted."""

from __future__ import annotations

import os

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "example-table"


def main() -> None:
    """Make the topic, change the table, and show what a reader of the topic makes of it."""
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    try:
        admin.create_topics(
            [NewTopic(TOPIC, num_partitions=1, replication_factor=1, topic_configs={"cleanup.policy": "compact"})]
        )
    except TopicAlreadyExistsError:
        print("the topic is there already")
    admin.close()

    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all")
    producer.send(TOPIC, key=b"ada", value=b"1815")
    producer.send(TOPIC, key=b"alan", value=b"1912")
    producer.send(TOPIC, key=b"alan", value=None)
    producer.flush(30)
    producer.close()

    table: dict[bytes, bytes] = {}
    partition = TopicPartition(TOPIC, 0)
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, consumer_timeout_ms=30_000)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    for record in consumer:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
        if record.offset + 1 >= end:
            break
    consumer.close()
    print(f"the table: {table}")


if __name__ == "__main__":
    main()
