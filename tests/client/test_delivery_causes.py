"""What a producer says of a record that was not acknowledged: what really kept it, and nothing that was only guessed."""

from __future__ import annotations

import pytest

from tests.client.scripted_brokers import T0, ScriptedBrokers
from tidelog.client import ClientClosed, DeliveryTimeout, Producer, ProducerConfig
from tidelog.model import BrokerId, ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


def config(brokers: ScriptedBrokers) -> ProducerConfig:
    settings = {"linger.ms": "0", "request.timeout.ms": "1000", "delivery.timeout.ms": "5000"}
    return ProducerConfig.from_properties({"bootstrap.servers": brokers.bootstrap, **settings})


def full(node: BrokerId, request: ProduceRequest) -> ProduceResponse:
    rows = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=tuple(
                PartitionProduceResponse(index=each.index, error_code=ErrorCode.KAFKA_STORAGE_ERROR, base_offset=-1)
                for each in topic.partition_data
            ),
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=tuple(rows))


def test_a_producer_that_gets_no_id_says_so_and_not_that_the_leader_cannot_be_reached() -> None:
    brokers = ScriptedBrokers(1)
    refusal = InitProducerIdResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, producer_id=-1, producer_epoch=-1)
    brokers.scripts[ApiKey.INIT_PRODUCER_ID] = lambda node, request: refusal

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(config(brokers), runtime) as producer:
            delivery = await producer.send(T0.topic, b"x")
            with pytest.raises(DeliveryTimeout, match=r"no broker has given the producer an id: REQUEST_TIMED_OUT"):
                await delivery

    brokers.run(story)


def test_a_record_that_a_closed_producer_still_has_is_told_with_what_kept_it() -> None:
    brokers = ScriptedBrokers(1)
    brokers.scripts[ApiKey.PRODUCE] = full

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(config(brokers), runtime) as producer:
            delivery = await producer.send(T0.topic, b"x")
            await producer.close(timeout_ms=2_000)
            with pytest.raises(ClientClosed, match="before the record was acknowledged; last: KAFKA_STORAGE_ERROR"):
                await delivery

    brokers.run(story)


def test_a_close_that_waits_as_long_as_a_delivery_may_take_lets_the_delivery_tell_its_fate() -> None:
    brokers = ScriptedBrokers(1)
    brokers.scripts[ApiKey.PRODUCE] = full

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(config(brokers), runtime) as producer:
            delivery = await producer.send(T0.topic, b"x")
            await producer.close()
            with pytest.raises(DeliveryTimeout, match="KAFKA_STORAGE_ERROR"):
                await delivery

    brokers.run(story)
