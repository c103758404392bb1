"""The parts of a broker that handlers may use."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.broker.fetch_sessions import FetchSessionCache
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.replica_manager import ReplicaManager
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
    producer_ids: ProducerIds
    fetch_sessions: FetchSessionCache

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        return self.live_config.current
