"""Channels to nobody: what a controller would have told, and answers typed by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.controller import ClusterImage, ReplicaEnd
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition


class RecordedChannels:
    """Implements ClusterChannels."""

    def __init__(self, images: list[ClusterImage] | None = None) -> None:
        self.images: list[ClusterImage] = [] if images is None else images
        self.withdrawals = 0
        self.is_somebody_out_of_reach = False
        self.ends: dict[BrokerId, dict[TopicPartition, ReplicaEnd]] = {}
        self.inquiries: list[tuple[BrokerId, tuple[TopicPartition, ...]]] = []

    def publish(self, image: ClusterImage) -> None:
        self.images.append(image)

    async def told(self, image: ClusterImage, *, timeout_ms: float) -> bool:
        return not self.is_somebody_out_of_reach and timeout_ms > 0 and any(image is one for one in self.images)

    def withdraw(self) -> None:
        self.withdrawals += 1

    async def replica_ends(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ReplicaEnd]:
        self.inquiries.append((broker_id, tuple(partitions)))
        if broker_id not in self.ends:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        known = self.ends[broker_id]
        return {partition: known[partition] for partition in partitions if partition in known}


async def unheard(broker_epoch: int) -> None:
    """An `on_registered` that does nothing."""
