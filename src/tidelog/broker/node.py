"""The parts of a broker that handlers may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.config_follower import ConfigFollower
from tidelog.broker.control_plane import ControlPlane
from tidelog.broker.faults import Faults
from tidelog.broker.fetch_sessions import FetchSessionCache
from tidelog.broker.fetchers import Fetchers, IsrChanges
from tidelog.broker.forwarding import ControllerLine
from tidelog.broker.group_coordination import GroupCoordination
from tidelog.broker.internal_topics import InternalTopics
from tidelog.broker.leadership import Leaderships
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.peers import Peers
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.replica_descriptions import ReplicaDescriptions
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_selector import ReplicaSelector
from tidelog.broker.replication_quota import ReplicationQuotas
from tidelog.broker.transaction_coordination import TransactionCoordination
from tidelog.broker.transaction_membership import TransactionMembership
from tidelog.broker.visible_records import VisibleRecords
from tidelog.config import BrokerConfig
from tidelog.controller.service import ControllerService
from tidelog.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Owns nothing; says who is there."""

    live_config: LiveConfig
    runtime: Runtime
    metadata: MetadataCache
    replicas: ReplicaManager
    controller: ControllerService
    control_plane: ControlPlane
    configs: ConfigFollower
    leaderships: Leaderships
    peers: Peers
    controller_line: ControllerLine
    descriptions: ReplicaDescriptions
    fetchers: Fetchers
    isr_changes: IsrChanges
    quota: ReplicationQuotas
    selector: ReplicaSelector
    broker_epoch: Callable[[], int]
    inter_broker_listener: str
    producer_ids: ProducerIds
    fetch_sessions: FetchSessionCache
    internal_topics: InternalTopics
    visible_records: VisibleRecords
    groups: GroupCoordination
    transactions: TransactionCoordination
    membership: TransactionMembership
    faults: Faults

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        return self.live_config.current

    def is_inter_broker(self, listener: str) -> bool:
        """Whether requests of this listener come from brokers, who may ask what clients may not."""
        return listener == self.inter_broker_listener
