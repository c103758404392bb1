"""All or nothing: records that a producer sends in one transaction are read together, or never.

The second order fails half-way and is aborted. Whoever reads what is committed does not see its first half, though it is in the log.
"""

from __future__ import annotations

import os
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "example-orders"
TIMEOUT_S = 30.0


def place(producer: Producer, order: str, items: list[str]) -> None:
    """Send an order item by item. Raises ValueError in the middle of one that is wrong."""
    for item in items:
        if not item:
            raise ValueError(f"{order} has an item without a name")
        producer.produce(TOPIC, key=order, value=item, partition=0)


def place_or_abort(producer: Producer, order: str, items: list[str]) -> None:
    """One transaction."""
    producer.begin_transaction()
    try:
        place(producer, order, items)
        producer.commit_transaction(TIMEOUT_S)
        print(f"{order} is committed")
    except (KafkaException, ValueError) as failure:
        producer.flush(TIMEOUT_S)  # only so that the example has something to skip
        producer.abort_transaction(TIMEOUT_S)
        print(f"{order} is aborted: {failure}")


def read(isolation_level: str) -> list[str]:
    """Everything in the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append(f"{(message.key() or b'').decode()}: {(message.value() or b'').decode()}")
    consumer.close()
    return found


def main() -> int:
    """Two good orders and a bad one between them; returns the exit code."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in [*admin.delete_topics([TOPIC]).values()]:
        future.exception(TIMEOUT_S)  # nothing is left of the last run, if there was one
    for future in admin.create_topics([NewTopic(TOPIC, num_partitions=1)]).values():
        future.result(TIMEOUT_S)

    # The id says who this is, also after a restart: whoever comes next with it ends what this one left open.
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": "example-orders-desk"})
    producer.init_transactions(TIMEOUT_S)
    place_or_abort(producer, "order 1", ["tea", "milk"])
    place_or_abort(producer, "order 2", ["sugar", ""])
    place_or_abort(producer, "order 3", ["bread"])

    committed, everything = read("read_committed"), read("read_uncommitted")
    print(f"committed: {committed}")
    print(f"in the log: {everything}")
    is_as_told = committed == ["order 1: tea", "order 1: milk", "order 3: bread"] and "order 2: sugar" in everything
    return 0 if is_as_told else 1


if __name__ == "__main__":
    sys.exit(main())
