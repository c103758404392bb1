"""Deleting the oldest records of a partition because somebody asks for it (KIP-107)."""

from __future__ import annotations

from typing import Final

from tidelog.model import NO_LEADER_EPOCH, ApiError, ErrorCode, Offset
from tidelog.partition.partition import Partition

TO_HIGH_WATERMARK: Final = -1


def delete_records(replica: Partition, offset: Offset) -> Offset:
    """Make records below `offset` unreadable; where the log begins then. An offset below its beginning changes nothing.

    The new beginning lasts once the log directory's checkpoints are written. Raises ApiError; nothing is deleted then.
    """
    replica.check_leader_epoch(NO_LEADER_EPOCH)
    if not replica.log.config.is_deleted:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"Records of partition {replica.topic_partition} can not be deleted due to the configured policy",
        )
    target = replica.high_watermark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= target <= replica.high_watermark:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in [0, {replica.high_watermark}], where {replica.topic_partition} can be cut",
        )
    replica.log.advance_log_start(target)
    return replica.log.log_start_offset
