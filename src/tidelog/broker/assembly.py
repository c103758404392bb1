"""Who is given whom."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tidelog.broker.config_follower import ConfigFollower
from tidelog.broker.control_plane import ControlPlane
from tidelog.broker.controller_channels import ChannelSurroundings, ControllerChannels
from tidelog.broker.coordination import CoordinationSurroundings
from tidelog.broker.directory_reports import DirectoryReports, OfficeCalls
from tidelog.broker.faults import Faults
from tidelog.broker.fetch_sessions import FetchSessionCache
from tidelog.broker.fetchers import ReplicaFetchers
from tidelog.broker.forwarding import ControllerLine
from tidelog.broker.group_coordination import GroupCoordination
from tidelog.broker.group_settings import group_settings
from tidelog.broker.incarnation import Incarnations
from tidelog.broker.inter_broker import inter_broker_listener
from tidelog.broker.internal_topics import InternalTopics
from tidelog.broker.isr_changes import IsrSurroundings, LeaderIsrChanges
from tidelog.broker.leadership import Leaderships
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.log_directories import known_broker_id
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.node import Node
from tidelog.broker.peers import Peers
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.replica_descriptions import ReplicaDescriptions
from tidelog.broker.replica_fetcher import FetcherSurroundings
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.broker.replica_selector import ReplicaSelector
from tidelog.broker.replication_quota import ReplicationQuotas
from tidelog.broker.topic_view import CachedTopics
from tidelog.broker.transaction_coordination import TransactionCoordination
from tidelog.broker.transaction_markers import MarkerSurroundings
from tidelog.broker.transaction_membership import TransactionMembership
from tidelog.broker.transaction_settings import transaction_settings
from tidelog.broker.visible_records import VisibleRecords
from tidelog.config import GENERATED_BROKER_ID, BrokerConfig
from tidelog.controller.membership import Membership
from tidelog.controller.service import ControllerService
from tidelog.coordinator.group.assembly import make_group_machine
from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.model import BrokerEpoch, LeaderEpoch, TopicPartition
from tidelog.registry import Registry
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A node, and the parts of it that only have to be started and stopped."""

    node: Node
    roles: ReplicaRoles
    channels: ControllerChannels
    fetchers: ReplicaFetchers
    isr_changes: LeaderIsrChanges
    incarnations: Incarnations
    directory_reports: DirectoryReports


@dataclass(slots=True)
class _Registered:
    """What follows from a registration, before anybody can be told of it."""

    incarnations: Incarnations
    replicas: ReplicaManager
    configs: ConfigFollower
    control_plane: ControlPlane
    reports: DirectoryReports | None = None

    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of the registration that all of this has been done for."""
        return self.control_plane.broker_epoch

    async def on_registered(self, broker_epoch: BrokerEpoch) -> None:
        """Note it in the log directories, fence what was meant for the former one, and watch again."""
        replicas = self.replicas
        await self.incarnations.remember(replicas.directories, broker_epoch, replicas.on_directory_failed)
        self.control_plane.broker_epoch = replicas.broker_epoch = broker_epoch
        self.configs.on_session()
        if self.reports is not None:
            self.reports.on_session()


def assemble(config: BrokerConfig, runtime: Runtime, registry: Registry, faults: Faults) -> Assembly:
    """Make everything; nothing runs yet."""
    # The first codec imports kio, which takes longer than the loop may be held; each of the others is made on first use in a few milliseconds.
    prepare([ApiKey.API_VERSIONS])
    live_config = LiveConfig(config)
    metadata = MetadataCache(inter_broker_listener(config))
    replicas = ReplicaManager(config, runtime)
    roles = ReplicaRoles(config, runtime.clock, replicas, is_live=metadata.is_live)
    configs = ConfigFollower(registry, live_config, metadata, roles)
    control_plane = ControlPlane(config.broker_id, runtime.clock, metadata, replicas, roles, configs)
    incarnations = Incarnations(config.broker_id, runtime)
    registered = _Registered(incarnations, replicas, configs, control_plane)
    descriptions = ReplicaDescriptions(config.broker_id, replicas, runtime.clock, registered.broker_epoch)
    channels = _channels(config, runtime, control_plane, descriptions)
    controller = ControllerService(
        config, registry, runtime.randomness, runtime.clock, channels, on_registered=registered.on_registered
    )
    channels.report_to(controller)
    registered.reports = DirectoryReports(
        config.broker_id,
        registry,
        replicas,
        OfficeCalls(lambda: controller.is_active, channels.repeat, controller.on_replica_damaged),
        lambda: incarnations.forget(replicas.directories),
    )
    leaderships = Leaderships(registry, config.broker_id)
    local = _Local(live_config, runtime, metadata, replicas, control_plane, configs, descriptions, leaderships, faults)
    node, fetchers, isr_changes = _replicating(local, controller, incarnations)
    return Assembly(
        node=node,
        roles=roles,
        channels=channels,
        fetchers=fetchers,
        isr_changes=isr_changes,
        incarnations=incarnations,
        directory_reports=registered.reports,
    )


def _channels(
    config: BrokerConfig, runtime: Runtime, control_plane: ControlPlane, descriptions: ReplicaDescriptions
) -> ControllerChannels:
    surroundings = ChannelSurroundings(
        config=config,
        runtime=runtime,
        inter_broker_listener=inter_broker_listener(config),
        control_plane=control_plane,
        descriptions=descriptions,
    )
    return ControllerChannels(surroundings)


class _Local(NamedTuple):
    """The parts that know of no other broker."""

    live_config: LiveConfig
    runtime: Runtime
    metadata: MetadataCache
    replicas: ReplicaManager
    control_plane: ControlPlane
    configs: ConfigFollower
    descriptions: ReplicaDescriptions
    leaderships: Leaderships
    faults: Faults


def _replicating(
    local: _Local, controller: ControllerService, incarnations: Incarnations
) -> tuple[Node, ReplicaFetchers, LeaderIsrChanges]:
    """The parts that talk to other brokers, and with them the node."""
    config, runtime, metadata, replicas = local.live_config.current, local.runtime, local.metadata, local.replicas
    peers = Peers(config, runtime.network, metadata.inter_broker_address)
    producer_ids = ProducerIds(controller.allocate_producer_ids, replicas.highest_producer_id)
    transactions = _transactions(local, peers, producer_ids, incarnations)
    line = ControllerLine(controller, peers, metadata)
    quotas = ReplicationQuotas(config.broker_id, lambda: local.live_config.current)
    fetchers = _fetchers(local, quotas)
    isr_changes = LeaderIsrChanges(
        IsrSurroundings(
            config=config,
            runtime=runtime,
            replicas=replicas,
            ask_controller=line.alter_partition,
            broker_epoch=lambda: local.control_plane.broker_epoch,
        )
    )
    replicas.replicate_with(fetchers, isr_changes)
    node = Node(
        **local._asdict(),
        controller=controller,
        peers=peers,
        controller_line=line,
        fetchers=fetchers,
        isr_changes=isr_changes,
        quota=quotas,
        selector=ReplicaSelector(config, lambda: {one.broker_id: one.rack for one in metadata.image.brokers.values()}),
        broker_epoch=lambda: local.control_plane.broker_epoch,
        inter_broker_listener=inter_broker_listener(config),
        producer_ids=producer_ids,
        fetch_sessions=FetchSessionCache(slots_max=config.fetch_session_slots),
        internal_topics=InternalTopics(local.live_config, runtime.clock, metadata, line.create_topic),
        visible_records=VisibleRecords(),
        groups=_groups(local),
        transactions=transactions,
        membership=TransactionMembership(local.live_config, runtime, transactions, peers),
    )
    return node, fetchers, isr_changes


def _fetchers(local: _Local, quotas: ReplicationQuotas) -> ReplicaFetchers:
    return ReplicaFetchers(
        FetcherSurroundings(
            config=local.live_config.current,
            runtime=local.runtime,
            replicas=local.replicas,
            quotas=quotas,
            address_of=local.metadata.inter_broker_address,
            broker_epoch=lambda: local.control_plane.broker_epoch,
        )
    )


def _groups(local: _Local) -> GroupCoordination:
    config, randomness = local.live_config.current, local.runtime.randomness
    topics = CachedTopics(local.metadata, partial(_led_epoch, local.replicas))
    make = partial(make_group_machine, group_settings(config), topics, randomness)
    return GroupCoordination(config, _coordinating(local), make)


def _led_epoch(replicas: ReplicaManager, topic_partition: TopicPartition) -> LeaderEpoch | None:
    partition = replicas.hosting.partition(topic_partition)
    return None if partition is None or not partition.is_leader else partition.leader_epoch


def _transactions(
    local: _Local, peers: Peers, producer_ids: ProducerIds, incarnations: Incarnations
) -> TransactionCoordination:
    config = local.live_config.current
    settings = transaction_settings(config)
    make = partial(TransactionMachine, lambda: settings, producer_ids, lambda: incarnations.has_lost_standing)
    markers = MarkerSurroundings(config.broker_id, local.runtime, local.metadata, peers)
    return TransactionCoordination(_coordinating(local), make, markers)


def _coordinating(local: _Local) -> CoordinationSurroundings:
    return CoordinationSurroundings(local.runtime.clock, local.metadata, local.replicas)


async def with_broker_id(config: BrokerConfig, runtime: Runtime, registry: Registry) -> BrokerConfig:
    """The settings with a real broker id: the given one, the one the log directories remember, or a fresh one."""
    if config.broker_id != GENERATED_BROKER_ID:
        return config
    broker_id = known_broker_id(config, runtime)
    if broker_id is None:
        nameless = Membership(config, registry, runtime.randomness, runtime.clock, _unregistered)
        broker_id = await nameless.generate_broker_id()
    return dataclasses.replace(config, broker_id=broker_id)


async def _unregistered(_: BrokerEpoch) -> None:
    """Whoever only asks for a broker id registers nothing."""
