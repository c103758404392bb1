"""One reign of a controller: how it is won, and what can be read and written in it.

Every write carries a check of /controller_epoch at the version of our election, so that a controller that slept through its successor's
election can change nothing (fault C01). Part of the shell: it waits, but only for the registry it is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tidelog.controller import layout
from tidelog.controller.controller import Write, deletion_writes
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.snapshot import (
    TopicNodes,
    broker_configs_at,
    brokers_of,
    complete,
    expected_paths,
    newest_controller_epoch,
)
from tidelog.model import BrokerId, TimestampMs, TopicId
from tidelog.registry import BadVersion, Check, Create, Delete, Node, NodeExists, NoNode, Registry, Set
from tidelog.runtime import Randomness


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
        """Read everything, and complete what a former controller left half written."""
        marked = await self._registry.children(layout.DELETIONS)
        for name in marked:
            await self.delete_marked_topic(name)
        image = ClusterImage(
            cluster_id=cluster_id,
            controller_id=self._broker_id,
            controller_epoch=self.epoch,
            brokers=brokers_of(await self._brokers()),
            broker_configs=await self._broker_configs(),
            finished_deletions=frozenset(marked),
        )
        names = await self._registry.children(layout.TOPICS)
        await self._delete_orphaned_configs(names)
        return image.with_topics([await self._load_topic(name, image, randomness) for name in names])

    async def delete_marked_topic(self, name: str) -> None:
        """Remove what is left of a topic whose deletion was promised, and then the promise."""
        topic = await self._read_topic(name)
        paths = [] if topic is None else list(topic.nodes)
        mark_and_config = [layout.deletion_path(name), layout.topic_config_path(name)]
        found = await self._registry.get_many(mark_and_config)
        paths += [path for path, node in zip(mark_and_config, found, strict=True) if node is not None]
        for write in deletion_writes(name, list(dict.fromkeys(paths))):
            await self.write(write)

    async def notifications(self) -> list[str]:
        """The notifications of changed settings that are there."""
        names = await self._registry.children(layout.CONFIG_CHANGES)
        return [f"{layout.CONFIG_CHANGES}/{name}" for name in names]

    async def _broker_configs(self) -> dict[str, dict[str, str]]:
        names = await self._registry.children(layout.BROKER_CONFIGS)
        paths = [layout.broker_config_path(name) for name in names]
        nodes = await self._registry.get_many(paths)
        found = zip(names, paths, nodes, strict=True)
        return {name: broker_configs_at(path, node) for name, path, node in found if node is not None}

    async def _brokers(self) -> dict[BrokerId, Node]:
        names = [name for name in await self._registry.children(layout.BROKER_IDS) if name.isdecimal()]
        nodes = await self._registry.get_many([layout.broker_path(int(name)) for name in names])
        return {int(name): node for name, node in zip(names, nodes, strict=True) if node is not None}

    async def _delete_orphaned_configs(self, topics: Sequence[str]) -> None:
        """Settings of no topic would stand in the way of a new one of that name."""
        known = frozenset(topics) | {"<default>"}
        for name in await self._registry.children(layout.TOPIC_CONFIGS):
            if name not in known:
                await self.write((Delete(layout.topic_config_path(name)),))

    async def _load_topic(self, name: str, image: ClusterImage, randomness: Randomness) -> TopicImage:
        nodes = await self._read_topic(name)
        if nodes is None:
            raise layout.MalformedNode(layout.topic_path(name), "the topic vanished while it was read")
        if newest_controller_epoch(nodes) > self.epoch:
            raise layout.MalformedNode(layout.topic_path(name), "a state was written in a later controller epoch")
        topic_id = nodes.topic_id or await self._give_topic_id(nodes, randomness)
        topic, writes = complete(nodes, topic_id, image)
        for write in writes:
            await self.write(write)
        return topic

    async def _give_topic_id(self, topic: TopicNodes, randomness: Randomness) -> TopicId:
        path, topic_id = layout.topic_path(topic.name), randomness.uuid()
        node = topic.nodes[path]
        await self.write((Set(path, layout.add_topic_id(topic.name, node, topic_id), node.version),))
        return topic_id

    async def _read_topic(self, name: str) -> TopicNodes | None:
        [node] = await self._registry.get_many([layout.topic_path(name)])
        if node is None:
            return None
        stored = layout.decode_topic(name, node)
        paths = expected_paths(name, stored)
        nodes = await self._registry.get_many(paths)
        found = {path: node for path, node in zip(paths, nodes, strict=True) if node is not None}
        return TopicNodes(name=name, stored=stored, nodes=found)
