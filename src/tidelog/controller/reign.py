"""One reign of a controller: how it is won, and what can be read and written in it.

Every write carries a check of /controller_epoch at the version of our election, so that a controller that slept through its successor's
election can change nothing (fault C01). Part of the shell: it waits, but only for the registry it is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidelog.controller import layout
from tidelog.controller.commands import Write
from tidelog.controller.image import BrokerEpoch, BrokerImage, ClusterImage, TopicImage
from tidelog.controller.snapshot import StoredParts, broker_configs_at, brokers_of, completion_writes
from tidelog.controller.writes import chunks, deletion_writes
from tidelog.model import BrokerId, TimestampMs, TopicId
from tidelog.registry import BadVersion, Check, Create, Delete, Node, NodeExists, NoNode, Registry, Set
from tidelog.runtime import Randomness

NODES_PER_READ: Final = 200  # decoded in one go


class Fenced(Exception):
    """A later controller has been elected."""


class ControllerElsewhere(Exception):
    """Another broker is the controller."""

    def __init__(self, broker_id: BrokerId) -> None:
        super().__init__(f"broker {broker_id} is the controller")
        self.broker_id = broker_id


async def elect_controller(registry: Registry, broker_id: BrokerId, now_ms: TimestampMs) -> Reign:
    """Become controller, or raise ControllerElsewhere. Winning raises the controller epoch by one, in the same write."""
    with contextlib.suppress(NodeExists):
        await registry.create(layout.CONTROLLER_EPOCH, b"0")
    node = await registry.get(layout.CONTROLLER_EPOCH)
    epoch = layout.decode_controller_epoch(node) + 1
    claim = Create(layout.CONTROLLER, layout.encode_controller(broker_id, now_ms), ephemeral=True)
    try:
        await registry.multi([claim, Set(layout.CONTROLLER_EPOCH, b"%d" % epoch, node.version)])
    except (NodeExists, BadVersion):
        return await _claimed_before(registry, broker_id)
    return Reign(registry, broker_id=broker_id, epoch=epoch, epoch_version=node.version + 1)


async def _claimed_before(registry: Registry, broker_id: BrokerId) -> Reign:
    """The reign our own session won without hearing of it, if it did: nobody else can have raised the epoch since."""
    try:
        holder = await registry.get(layout.CONTROLLER)
    except NoNode:
        raise ControllerElsewhere(-1) from None
    if holder.owner != registry.session_id:
        raise ControllerElsewhere(layout.decode_controller(holder))
    node = await registry.get(layout.CONTROLLER_EPOCH)
    epoch = layout.decode_controller_epoch(node)
    return Reign(registry, broker_id=broker_id, epoch=epoch, epoch_version=node.version)


class Reign:
    """The registry as the controller of one epoch may use it."""

    def __init__(self, registry: Registry, *, broker_id: BrokerId, epoch: int, epoch_version: int) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._guard = Check(layout.CONTROLLER_EPOCH, epoch_version)
        self.epoch = epoch

    async def write(self, write: Write) -> list[str]:
        """Perform a write of a decision, as a whole, if we are still the controller; the paths it touched. Raises Fenced, RegistryError."""
        try:
            _, *outcomes = await self._registry.multi([self._guard, *write])
            return [outcome.path for outcome in outcomes]
        except BadVersion as error:
            if error.path == layout.CONTROLLER_EPOCH:
                raise Fenced(f"controller epoch {self.epoch} is over") from error
            raise

    async def load(self, cluster_id: str, randomness: Randomness) -> ClusterImage:
        """Read everything, and complete what a former controller left half written. Takes time linear in the partitions."""
        marked = await self._registry.children(layout.DELETIONS)
        for name in marked:
            await self.delete_marked_topic(name)
        image = ClusterImage(
            cluster_id=cluster_id,
            controller_id=self._broker_id,
            controller_epoch=self.epoch,
            brokers=await self.brokers(),
            broker_configs=await self._broker_configs(),
            finished_deletions=frozenset(marked),
        )
        names = await self._registry.children(layout.TOPICS)
        await self._delete_orphaned_configs(names)
        topics: list[TopicImage] = []
        for some in chunks(names, NODES_PER_READ):
            for batch in _batches(await self._read_topics(some, randomness)):
                topics += await self._complete(batch, image)
        return image.with_topics(topics)

    async def brokers(self) -> dict[BrokerId, BrokerImage]:
        """Who is registered now."""
        names = [name for name in await self._registry.children(layout.BROKER_IDS) if name.isdecimal()]
        nodes = await self._registry.get_many([layout.broker_path(int(name)) for name in names])
        return brokers_of({int(name): node for name, node in zip(names, nodes, strict=True) if node is not None})

    async def known_epochs(self) -> dict[BrokerId, BrokerEpoch]:
        """The starts of brokers that the states of all partitions heed."""
        return layout.decode_known_epochs(await self._registry.get(layout.KNOWN_EPOCHS))

    async def remember_epochs(self, epochs: Mapping[BrokerId, BrokerEpoch]) -> None:
        """From now on the states of all partitions heed these starts."""
        await self.write((Set(layout.KNOWN_EPOCHS, layout.encode_known_epochs(epochs)),))

    async def delete_marked_topic(self, name: str) -> None:
        """Remove what is left of a topic whose deletion was promised, and then the promise."""
        paths = [layout.topic_path(name), layout.topic_config_path(name), layout.deletion_path(name)]
        nodes = await self._existing(paths)
        if paths[0] in nodes:
            stored = layout.decode_topic(name, nodes[paths[0]])
            parts = [layout.partitions_path(name)]
            for index in stored.assignments:
                parts += [layout.partition_path(name, index), layout.state_path(name, index)]
            nodes |= await self._existing(parts)
        for write in deletion_writes(name, list(nodes)):
            await self.write(write)

    async def notifications(self) -> dict[str, Node]:
        """The notifications of changed settings that are there."""
        names = await self._registry.children(layout.CONFIG_CHANGES)
        return await self._existing([f"{layout.CONFIG_CHANGES}/{name}" for name in names])

    async def _existing(self, paths: Sequence[str]) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for some in chunks(paths, NODES_PER_READ):
            nodes = await self._registry.get_many(some)
            found |= {path: node for path, node in zip(some, nodes, strict=True) if node is not None}
        return found

    async def _broker_configs(self) -> dict[str, dict[str, str]]:
        names = await self._registry.children(layout.BROKER_CONFIGS)
        nodes = await self._existing([layout.broker_config_path(name) for name in names])
        paths = {name: layout.broker_config_path(name) for name in names}
        return {name: broker_configs_at(path, nodes[path]) for name, path in paths.items() if path in nodes}

    async def _delete_orphaned_configs(self, topics: Sequence[str]) -> None:
        """Settings of no topic would stand in the way of a new one of that name."""
        known = frozenset(topics) | {"<default>"}
        for name in await self._registry.children(layout.TOPIC_CONFIGS):
            if name not in known:
                await self.write((Delete(layout.topic_config_path(name)),))

    async def _read_topics(self, names: Sequence[str], randomness: Randomness) -> list[StoredParts]:
        topics: list[StoredParts] = []
        nodes = await self._existing([layout.topic_path(name) for name in names])
        for name in names:
            node = nodes.get(layout.topic_path(name))
            if node is None:
                raise layout.MalformedNode(layout.topic_path(name), "the topic vanished while it was read")
            stored = layout.decode_topic(name, node)
            topic_id = stored.topic_id or await self._give_topic_id(name, node, randomness)
            topics.append(StoredParts(name=name, topic_id=topic_id, stored=stored))
        return topics

    async def _give_topic_id(self, name: str, node: Node, randomness: Randomness) -> TopicId:
        path, topic_id = layout.topic_path(name), randomness.uuid()
        await self.write((Set(path, layout.add_topic_id(name, node, topic_id), node.version),))
        return topic_id

    async def _complete(self, topics: Sequence[StoredParts], image: ClusterImage) -> list[TopicImage]:
        """The topics with their states and settings, those that are missing made."""
        pairs = [(topic, index) for topic in topics for index in topic.stored.assignments]
        for some in chunks(pairs, NODES_PER_READ):
            paths = [layout.state_path(topic.name, index) for topic, index in some]
            nodes = await self._registry.get_many(paths)
            for (topic, index), path, node in zip(some, paths, nodes, strict=True):
                if node is not None:
                    topic.add_state(index, path, node, self.epoch)
        configs = await self._existing([layout.topic_config_path(topic.name) for topic in topics])
        for topic in topics:
            if layout.topic_config_path(topic.name) in configs:
                topic.add_configs(configs[layout.topic_config_path(topic.name)])
            if topic.missing or topic.configs is None:
                await self._repair(topic, image)
        return [topic.topic() for topic in topics]

    async def _repair(self, topic: StoredParts, image: ClusterImage) -> None:
        parents = [layout.partition_path(topic.name, index) for index in topic.missing]
        existing = await self._existing([layout.partitions_path(topic.name), *parents])
        for write in completion_writes(topic, image, existing):
            await self.write(write)


def _batches(topics: Sequence[StoredParts]) -> Iterator[list[StoredParts]]:
    """The topics in batches of about as many partitions as are read in one go."""
    batch: list[StoredParts] = []
    count = 0
    for topic in topics:
        batch.append(topic)
        count += len(topic.stored.assignments)
        if count >= NODES_PER_READ:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch
