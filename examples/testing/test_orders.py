"""Four tests as a project has them: a producer, a consumer group, a transaction, a failover. Run them with `pytest examples/testing`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

if TYPE_CHECKING:
    from tidelog.testing import Cluster

# The code under test.


def send_order(producer: Producer, topic: str, order: dict[str, object]) -> None:
    """Send an order, keyed by its customer."""
    producer.produce(topic, json.dumps(order), key=str(order["customer"]))
    producer.flush()


def handle_orders(consumer: Consumer, handle: Callable[[dict[str, object]], None], *, count: int) -> None:
    """Handle so many orders, and commit each one when it is done."""
    while count:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        handle(json.loads(message.value() or b""))
        consumer.commit(message=message, asynchronous=False)
        count -= 1


def bill_orders(consumer: Consumer, producer: Producer, invoices: str, *, count: int) -> None:
    """Write an invoice for each order, in one transaction with the offset of the order.

    In whose name the order comes is asked before the poll: after it there may have been a rebalance, and somebody else has the order, too.
    """
    while count:
        member, is_member = consumer.consumer_group_metadata(), bool(consumer.assignment())
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        if not is_member:  # It has joined meanwhile, and would commit in nobody's name.
            consumer.seek(TopicPartition(topic, partition, offset))
            continue
        producer.begin_transaction()
        producer.produce(invoices, b"invoice for " + (message.key() or b"nobody"))
        producer.send_offsets_to_transaction([TopicPartition(topic, partition, offset + 1)], member)
        producer.commit_transaction()
        count -= 1


def consumer_of(kafka: Cluster, topic: str, group: str) -> Consumer:
    """A member of a group that has subscribed."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    consumer.subscribe([topic])
    return consumer


# Its tests.


def test_an_order_is_sent_with_its_customer_as_key(kafka: Cluster, kafka_topic: str) -> None:
    send_order(Producer({"bootstrap.servers": kafka.bootstrap_servers}), kafka_topic, {"customer": "ada", "sum": 3})
    (record,) = kafka.records(kafka_topic)
    assert (record.key, json.loads(record.value or b"")) == (b"ada", {"customer": "ada", "sum": 3})


def test_who_comes_next_goes_on_where_the_last_one_stopped(kafka: Cluster, kafka_topic: str) -> None:
    kafka.produce(kafka_topic, [json.dumps({"number": number}) for number in range(4)])
    handled: list[object] = []
    for _ in range(2):
        consumer = consumer_of(kafka, kafka_topic, "shipping")
        handle_orders(consumer, lambda order: handled.append(order["number"]), count=2)
        consumer.close()
    assert handled == [0, 1, 2, 3]


def test_an_order_is_billed_once_though_the_first_attempt_dies(kafka: Cluster, kafka_topic: str) -> None:
    invoices = kafka.create_topic(f"{kafka_topic}-invoices")
    kafka.produce(kafka_topic, ["{}"], key="ada")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "billing"}

    dying = Producer(settings)
    dying.init_transactions()
    dying.begin_transaction()
    dying.produce(invoices, b"invoice that nobody commits")
    dying.flush()

    producer, consumer = Producer(settings), consumer_of(kafka, kafka_topic, "billing")
    producer.init_transactions()  # which ends what the dying one has left open
    bill_orders(consumer, producer, invoices, count=1)
    consumer.close()
    assert [record.value for record in kafka.records(invoices)] == [b"invoice for ada"]


@pytest.mark.kafka(brokers=3, topics=["orders"])
def test_orders_are_taken_while_the_leader_dies(kafka: Cluster) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    send_order(producer, "orders", {"customer": "ada"})
    leader = kafka.wait_for_leader("orders")
    kafka.kill(leader)
    send_order(producer, "orders", {"customer": "grace"})
    kafka.start_broker(leader)
    kafka.wait_for_isr("orders")
    assert [record.key for record in kafka.records("orders")] == [b"ada", b"grace"]
