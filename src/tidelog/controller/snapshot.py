"""What the registry holds, as read at the start of a reign, and the repairs it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.config import DYNAMIC_SETTINGS, ConfigError
from tidelog.controller import layout
from tidelog.controller.controller import PARTITIONS_PER_WRITE, Write, new_partition, state_creation
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.model import BrokerId, TopicId
from tidelog.registry import Create, Node, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNodes:
    """The nodes of one topic; a topic half made or half deleted lacks some."""

    name: str
    stored: layout.StoredTopic
    nodes: Mapping[str, Node]  # by path

    @property
    def topic_id(self) -> TopicId | None:
        """The topic's identifier, if it was made by a Kafka that gives one."""
        return self.stored.topic_id


def expected_paths(name: str, stored: layout.StoredTopic) -> list[str]:
    """Every path a topic can have."""
    paths = [layout.topic_path(name), layout.topic_config_path(name), layout.partitions_path(name)]
    for index in stored.assignments:
        paths += [layout.partition_path(name, index), layout.state_path(name, index)]
    return paths


def complete(topic: TopicNodes, topic_id: TopicId, image: ClusterImage) -> tuple[TopicImage, list[Write]]:
    """The topic with all its partitions, and the writes that create what was missing of it."""
    partitions: dict[int, PartitionState] = {}
    operations: list[Write] = []
    for index, assignment in topic.stored.assignments.items():
        node = topic.nodes.get(layout.state_path(topic.name, index))
        if node is not None:
            stored = layout.decode_state(layout.state_path(topic.name, index), node)
            partitions[index] = _known_partition(topic_id, assignment, stored)
        else:
            partitions[index] = new_partition(topic_id, assignment, frozenset(image.brokers))
            made = state_creation(topic.name, index, partitions[index], image.controller_epoch)
            operations.append(tuple(one for one in made if one.path not in topic.nodes))
    config = topic.nodes.get(layout.topic_config_path(topic.name))
    configs = {} if config is None else layout.decode_configs(layout.topic_config_path(topic.name), config)
    if config is None:
        operations.append((Create(layout.topic_config_path(topic.name), layout.encode_configs(configs)),))
    completed = TopicImage(name=topic.name, topic_id=topic_id, partitions=partitions, configs=configs)
    return completed, _repairs(topic, operations)


def newest_controller_epoch(topic: TopicNodes) -> int:
    """The newest reign that has written a state of this topic."""
    states = [layout.state_path(topic.name, index) for index in topic.stored.assignments]
    return max(
        (layout.decode_state(path, topic.nodes[path]).controller_epoch for path in states if path in topic.nodes),
        default=0,
    )


def _known_partition(topic_id: TopicId, assignment: tuple[BrokerId, ...], stored: layout.StoredState) -> PartitionState:
    return PartitionState(
        topic_id=topic_id,
        assignment=assignment,
        leader=stored.leader,
        leader_epoch=stored.leader_epoch,
        isr=stored.isr,
        partition_epoch=stored.partition_epoch,
    )


def _repairs(topic: TopicNodes, operations: list[Write]) -> list[Write]:
    if not operations:
        return []
    parent = layout.partitions_path(topic.name)
    writes: list[Write] = [] if parent in topic.nodes else [(Create(parent),)]
    for start in range(0, len(operations), PARTITIONS_PER_WRITE):
        chunk: list[Operation] = [one for made in operations[start : start + PARTITIONS_PER_WRITE] for one in made]
        writes.append(tuple(chunk))
    return writes


def brokers_of(nodes: Mapping[BrokerId, Node]) -> dict[BrokerId, BrokerImage]:
    """The live brokers."""
    return {broker_id: layout.decode_broker(broker_id, node) for broker_id, node in sorted(nodes.items())}


def broker_configs_at(path: str, node: Node) -> dict[str, str]:
    """The altered settings of a broker, proven to be readable; names that mean nothing to us stay as they are."""
    configs = layout.decode_configs(path, node)
    try:
        for name, row in DYNAMIC_SETTINGS.items():
            if name in configs:
                row.parse(configs[name])
    except ConfigError as error:
        raise layout.MalformedNode(path, str(error)) from error
    return configs
