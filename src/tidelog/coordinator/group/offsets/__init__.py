"""Committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, expiry, and what open transactions will have committed."""

from tidelog.coordinator.group.offsets.area import OffsetsArea
from tidelog.coordinator.group.offsets.table import OffsetTable

__all__ = ["OffsetTable", "OffsetsArea"]
