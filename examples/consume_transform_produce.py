"""Exactly once from topic to topic: what is read, what is written, and how far was read are committed in one transaction.

A worker reads amounts and writes their totals. It dies in the middle of a transaction; the one that takes over by the same id begins with
what was committed last. Every amount counts once. late_commit.py shows what happens without transactions.
"""

from __future__ import annotations

import os
import sys
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
RUN = uuid.uuid4().hex[:8]
AMOUNTS, DOUBLED, GROUP = f"example-amounts-{RUN}", f"example-doubled-{RUN}", f"example-doublers-{RUN}"
COUNT, AT_ONCE = 50, 10
TIMEOUT_S = 30.0


class Died(Exception):
    """The worker is gone, with a transaction open."""


class Worker:
    """A member of a group and a producer, which commit together."""

    def __init__(self) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": BOOTSTRAP,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,  # the producer commits
                "isolation.level": "read_committed",  # what others have aborted is no input
            }
        )
        self._consumer.subscribe([AMOUNTS])
        self._producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"{GROUP}-worker"})
        self._producer.init_transactions(TIMEOUT_S)  # ends what the last worker left open

    def work(self, *, dies_before_commit: int | None = None) -> int:
        """Double all amounts there are, some at a time; returns how many transactions it took. Raises Died."""
        done = 0
        last_offset = -1
        while last_offset < COUNT - 1:
            # In whose name the messages come is asked before, not after: a rebalance in between would have them committed by somebody
            # who was not given them, while another one reads them, too.
            member, is_member = self._consumer.consumer_group_metadata(), bool(self._consumer.assignment())
            messages = self._consumer.consume(AT_ONCE, timeout=1)
            if not messages:
                continue
            if not is_member:  # It has joined meanwhile, and would commit in nobody's name: from now on it has one.
                for place in before(messages):
                    self._consumer.seek(place)
                continue
            self._producer.begin_transaction()
            try:
                for message in messages:
                    doubled = 2 * int(message.value() or b"0")
                    self._producer.produce(DOUBLED, str(doubled), partition=0)
                # Where to go on is part of the transaction. The member's generation goes along: who has lost its partitions is refused.
                self._producer.send_offsets_to_transaction(after(messages), member)
                if done == dies_before_commit:
                    self._producer.flush(TIMEOUT_S)
                    raise Died
                self._producer.commit_transaction(TIMEOUT_S)
                done, last_offset = done + 1, messages[-1].offset() or 0
            except KafkaException:
                self._producer.abort_transaction(TIMEOUT_S)
                raise
        return done

    def leave(self) -> None:
        """Leave the group, so that nobody waits for its session to end."""
        self._consumer.close()


def before(messages: list[Message]) -> list[TopicPartition]:
    """Where these messages begin in each partition."""
    return list({(each.topic(), each.partition()): place(each) for each in reversed(messages)}.values())


def after(messages: list[Message]) -> list[TopicPartition]:
    """Where to go on after these messages in each partition."""
    return list({(each.topic(), each.partition()): place(each, 1) for each in messages}.values())


def place(message: Message, further: int = 0) -> TopicPartition:
    """Where a message is, or a few further on."""
    return TopicPartition(message.topic() or "", message.partition() or 0, (message.offset() or 0) + further)


def read_doubled(isolation_level: str) -> list[int]:
    """Everything that was written."""
    settings = {"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False, "isolation.level": isolation_level})
    consumer.assign([TopicPartition(DOUBLED, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append(int(message.value() or b"0"))
    consumer.close()
    return found


def main() -> int:
    """One worker dies, another takes over; returns the exit code."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(AMOUNTS, 1), NewTopic(DOUBLED, 1)]).values():
        future.result(TIMEOUT_S)
    source = Producer({"bootstrap.servers": BOOTSTRAP})
    for amount in range(COUNT):
        source.produce(AMOUNTS, str(amount), partition=0)
    source.flush(TIMEOUT_S)

    first = Worker()
    try:
        first.work(dies_before_commit=2)
    except Died:
        print("the first worker has committed two transactions and died in the third")
    first.leave()

    second = Worker()
    print(f"the second worker went on, with {second.work()} transactions")
    second.leave()

    committed, everything = read_doubled("read_committed"), read_doubled("read_uncommitted")
    print(f"{len(everything)} results are in the log, {len(committed)} of them committed, sum {sum(committed)}")
    is_once = sorted(committed) == [2 * amount for amount in range(COUNT)]
    return 0 if is_once and len(everything) > COUNT else 1


if __name__ == "__main__":
    sys.exit(main())
