"""What the registry holds, as read at the start of a reign, and the repairs it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.config import DYNAMIC_SETTINGS, ConfigError
from tidelog.controller import layout
from tidelog.controller.commands import Write
from tidelog.controller.election import new_partition
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.controller.leading import check_rules
from tidelog.controller.writes import PARTITIONS_PER_WRITE, chunks, state_creation
from tidelog.model import BrokerId, TopicId
from tidelog.registry import Create, Node, Operation


@dataclass(slots=True, kw_only=True)
class StoredParts:
    """What was found of one topic; a topic half made lacks some."""

    name: str
    topic_id: TopicId
    stored: layout.StoredTopic
    states: dict[int, PartitionState] = field(default_factory=dict)
    configs: dict[str, str] | None = None

    def add_state(self, index: int, path: str, node: Node, reigning: int) -> None:
        """One partition's state. Raises MalformedNode, also for one of a reign later than `reigning`."""
        state = layout.decode_state(path, node)
        if state.controller_epoch > reigning:
            raise layout.MalformedNode(path, "the state was written in a later controller epoch")
        self.states[index] = PartitionState(
            topic_id=self.topic_id,
            assignment=self.stored.assignments[index],
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            adding=self.stored.adding.get(index, ()),
            removing=self.stored.removing.get(index, ()),
            eligible=state.eligible,
            lost=state.lost,
            is_recovering=state.is_recovering,
        )

    def add_configs(self, node: Node) -> None:
        """The topic's own settings. Raises MalformedNode."""
        path = layout.topic_config_path(self.name)
        self.configs = layout.decode_configs(path, node)
        try:
            check_rules(self.configs)
        except ConfigError as error:
            raise layout.MalformedNode(path, str(error)) from error

    @property
    def missing(self) -> list[int]:
        """The partitions without a state: new ones."""
        return [index for index in self.stored.assignments if index not in self.states]

    def topic(self) -> TopicImage:
        """The topic, when all is there."""
        partitions = {index: self.states[index] for index in self.stored.assignments}
        return TopicImage(name=self.name, topic_id=self.topic_id, partitions=partitions, configs=self.configs or {})


def completion_writes(parts: StoredParts, image: ClusterImage, existing: Mapping[str, Node]) -> list[Write]:
    """Give the parts what is missing of them, and return the writes that do; `existing` tells of those nodes that may be there."""
    operations: list[Operation] = []
    if layout.partitions_path(parts.name) not in existing and parts.missing:
        operations.append(Create(layout.partitions_path(parts.name)))
    live = frozenset(image.brokers)
    for index in parts.missing:
        state = new_partition(parts.topic_id, parts.stored.assignments[index], live)
        made = state_creation(parts.name, index, state, image.controller_epoch)
        operations += (one for one in made if one.path not in existing)
        parts.states[index] = state
    if parts.configs is None:
        parts.configs = {}
        operations.append(Create(layout.topic_config_path(parts.name), layout.encode_configs({})))
    return list(chunks(operations, 2 * PARTITIONS_PER_WRITE))


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
