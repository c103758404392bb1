"""Small clusters to decide about."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog.config import BrokerConfig, Listener
from tidelog.controller import BrokerImage, ClusterImage, Controller, PartitionState, TopicImage
from tidelog.model import TopicPartition
from tidelog.simulation.randomness import SimulatedRandomness

TOPIC_ID = UUID("11111111-2222-4333-8444-555555555555")


T0 = TopicPartition("t", 0)


def broker(broker_id: int, rack: str | None = None, *, epoch: int | None = None, is_intact: bool = True) -> BrokerImage:
    endpoints = {"PLAINTEXT": Listener("PLAINTEXT", f"host{broker_id}", 9092)}
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=broker_id * 10 if epoch is None else epoch,
        endpoints=endpoints,
        rack=rack,
        is_intact=is_intact,
    )


def topic(name: str, *partitions: PartitionState, configs: Mapping[str, str] | None = None) -> TopicImage:
    return TopicImage(name=name, topic_id=TOPIC_ID, partitions=dict(enumerate(partitions)), configs=configs or {})


def state(
    assignment: tuple[int, ...],
    *,
    leader: int | None = None,
    isr: tuple[int, ...] = (),
    epoch: int = 3,
    eligible: tuple[int, ...] = (),
    lost: tuple[int, ...] = (),
) -> PartitionState:
    return PartitionState(
        topic_id=TOPIC_ID,
        assignment=assignment,
        leader=assignment[0] if leader is None else leader,
        leader_epoch=epoch,
        isr=isr or assignment,
        partition_epoch=epoch + 4,
        eligible=eligible,
        lost=lost,
    )


def controller(*topics: TopicImage, brokers: int = 1, **properties: str) -> Controller:
    """A controller of brokers 1 to `brokers`, in its fifth reign; `properties` have underscores for dots."""
    config = BrokerConfig.from_properties({name.replace("_", "."): value for name, value in properties.items()})
    image = ClusterImage(
        cluster_id="c",
        controller_id=1,
        controller_epoch=5,
        brokers={broker_id: broker(broker_id) for broker_id in range(1, brokers + 1)},
    )
    return Controller(config, image.with_topics(topics), SimulatedRandomness(1))
