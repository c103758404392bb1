"""Which replica a consumer should read from (KIP-392): its leader, or with the rack-aware selector the one nearest to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.config import BrokerConfig
from tidelog.config.replication import RACK_AWARE_SELECTOR
from tidelog.model import BrokerId, Offset
from tidelog.partition import Partition


class ReplicaSelector:
    """Asked by the leader for every consumer that told its rack. `racks` are those of the live brokers."""

    def __init__(self, config: BrokerConfig, racks: Callable[[], Mapping[BrokerId, str | None]]) -> None:
        self._is_rack_aware = config.replica_selector_class == RACK_AWARE_SELECTOR
        self._racks = racks

    def preferred(self, partition: Partition, offset: Offset, client_rack: str) -> BrokerId | None:
        """Who should serve this consumer; None where that is whom it asked."""
        if not self._is_rack_aware or not client_rack or not partition.is_leader:
            return None
        return partition.preferred_replica(offset=offset, client_rack=client_rack, racks=self._racks())
