"""How the controller speaks to the brokers: a Protocol that the broker room implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.controller.image import ClusterImage
from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class ReplicaEnd:
    """How far a replica's log goes; the greater one holds more of what was committed."""

    last_epoch: LeaderEpoch
    log_end_offset: Offset


class ClusterChannels(Protocol):
    """Tells every live broker what it must know, for as long as we are the controller."""

    def publish(self, image: ClusterImage) -> None:
        """This is the truth now. It is told in the background; an image that nobody has been told of yet is passed over for a newer one."""
        ...

    async def told(self, image: ClusterImage, *, timeout_ms: float) -> bool:
        """Wait until every live broker of the image has taken it, or a newer one; whether that came to be in time."""
        ...

    def withdraw(self) -> None:
        """We are not the controller any more: tell nobody anything."""
        ...

    async def replica_ends(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ReplicaEnd]:
        """Ask a live broker how far its replicas go; those it has not are left out. Bounded in time. Raises ApiError."""
        ...
