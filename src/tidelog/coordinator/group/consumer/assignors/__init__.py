"""Who shall read what: pure functions from members and topics to a target assignment, by the names that Kafka gives them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tidelog.coordinator.group.consumer.assignors.range import assign_ranges
from tidelog.coordinator.group.consumer.assignors.specification import Assignment, Assignor, MemberSpec
from tidelog.coordinator.group.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Final = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
"""Those that `group.consumer.assignors` may name."""

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "MemberSpec", "assign_ranges", "assign_uniformly"]
