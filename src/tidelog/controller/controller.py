"""The controller: what should be written to the registry, and what the cluster is once it is written. It changes nothing itself."""

from __future__ import annotations

import dataclasses

from tidelog.config import BrokerConfig
from tidelog.controller.altering import alter_configs
from tidelog.controller.commands import (
    AlterConfigs,
    AlterPartition,
    BeginShutdown,
    Command,
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    Distrust,
    ElectGreatest,
    ElectLeaders,
    ForgetMinimums,
    LoseReplicas,
    Reassign,
    Reconsider,
    SeeBrokers,
)
from tidelog.controller.image import ClusterImage, partitions_of
from tidelog.controller.isr import alter_partition
from tidelog.controller.leading import Leading, default_rules, seen_brokers, without_replicas
from tidelog.controller.making import TopicMaking
from tidelog.controller.reassignment import reassign
from tidelog.model import ApiError, ErrorCode, TopicId
from tidelog.runtime import Randomness


class Controller:
    """Decides for one reign, on the image it was loaded with; whoever performed the writes gives back the new image."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, randomness: Randomness) -> None:
        self._static_config = config
        self._randomness = randomness
        self._names: dict[TopicId, str] = {}
        self.image = image

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        return self.image.layers_of(self._static_config).merged()

    @property
    def leading(self) -> Leading:
        """Elections under the image of now."""
        return Leading(self.image, default_rules(self.image, self._static_config))

    def decide(self, command: Command) -> Decision:
        """What follows from a command. Raises ApiError where the whole of it is refused."""
        match command:
            case CreateTopics() | DeleteTopics() | CreatePartitions():
                return self._make(command)
            case AlterConfigs(alterations=alterations):
                return alter_configs(self.image, self._static_config, alterations)
            case Reconsider():
                return self.leading.reconsider(command)
            case Distrust():
                return self.leading.distrust(command)
            case ElectLeaders():
                return self.leading.elect(command)
            case ElectGreatest():
                return self.leading.elect_greatest(command)
            case AlterPartition():
                return alter_partition(self.leading, command, self._name_of)
            case Reassign(wanted=wanted):
                return reassign(self.leading, wanted)
            case SeeBrokers() | BeginShutdown() | LoseReplicas() | ForgetMinimums():
                return self._see(command)

    def _make(self, command: CreateTopics | DeleteTopics | CreatePartitions) -> Decision:
        making = TopicMaking(self.image, self.config, self._randomness)
        match command:
            case CreateTopics(topics=topics):
                return making.create(topics)
            case DeleteTopics(names=names):
                return making.delete(names)
            case CreatePartitions(topics=growing):
                return making.grow(growing)

    def _see(self, command: SeeBrokers | BeginShutdown | LoseReplicas | ForgetMinimums) -> Decision:
        match command:
            case SeeBrokers(brokers=brokers):
                return Decision(image=seen_brokers(self.image, brokers))
            case LoseReplicas(broker_id=broker_id, broker_epoch=broker_epoch, partitions=partitions):
                broker = self.image.brokers.get(broker_id)
                if broker is None or broker.broker_epoch != broker_epoch:
                    return Decision(image=self.image)
                image = without_replicas(self.image, broker_id, partitions)
                return Decision(image=image, reconsider=tuple(partitions))
            case ForgetMinimums():
                return Decision(image=dataclasses.replace(self.image, former_minimums={}))
            case BeginShutdown():
                return self._begin_shutdown(command)

    def _begin_shutdown(self, command: BeginShutdown) -> Decision:
        broker = self.image.brokers.get(command.broker_id)
        if broker is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {command.broker_id} does not exist.")
        if broker.broker_epoch != command.broker_epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Broker {command.broker_id} is registered under epoch {broker.broker_epoch}, not {command.broker_epoch}.",
            )
        image = dataclasses.replace(self.image, shutting_down=self.image.shutting_down | {command.broker_id})
        moving = tuple(partition for partition, _ in partitions_of(image, command.broker_id))
        return Decision(image=image, reconsider=moving)

    def _name_of(self, topic_id: TopicId) -> str | None:
        """The name of a topic. The table is made anew only when it fails, so that proposals cost no look at every topic."""
        name = self._names.get(topic_id)
        topic = None if name is None else self.image.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            self._names = {topic.topic_id: topic.name for topic in self.image.topics.values()}
            return self._names.get(topic_id)
        return name
