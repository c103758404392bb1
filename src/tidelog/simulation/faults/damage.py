"""The rule that keeps promises testable: copies protect against the loss of one of them, not of all at once."""

from __future__ import annotations

from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.faults.plan import Fault, FaultPlan


class DamageRule:
    """At most one broker at a time may have lost what it was promised to keep."""

    def __init__(self, cluster: SimulatedCluster, plan: FaultPlan) -> None:
        self._cluster = cluster
        self._plan = plan
        self._active: list[Fault] = []
        self._damaged: str | None = None

    @property
    def damaged(self) -> str | None:
        """The broker whose copies do not count now: a fault may still take them, or they have not all come back."""
        if self._damaged is not None and not self._active and self._is_whole(self._damaged):
            self._damaged = None
        return self._damaged

    def allows(self, fault: Fault) -> bool:
        """Whether a fault leaves every promise a copy."""
        if not self._plan.is_damaging(fault):
            return True
        hit = fault.targets or self._plan.broker_names
        return len(hit) == 1 and self.damaged in (None, hit[0])

    def begin(self, fault: Fault) -> None:
        """A fault begins that was allowed."""
        if self._plan.is_damaging(fault):
            self._active.append(fault)
            (self._damaged,) = fault.targets or self._plan.broker_names

    def end(self, fault: Fault) -> None:
        """A fault was undone."""
        self._active = [each for each in self._active if each is not fault]

    def _is_whole(self, name: str) -> bool:
        """Whether a broker is back with everything: in every ISR it belongs to, and as far as anybody knows records to be committed."""
        broker = next(each for each in self._cluster.brokers.values() if each.node.name == name)
        if not broker.is_ready:
            return False
        snapshot = self._cluster.snapshot()
        for topic_partition, state in snapshot.states.items():
            if sorted(state.isr) != sorted(state.assignment):
                return False
            if broker.broker_id in state.assignment:
                views = snapshot.replicas.get(topic_partition, ())
                own = [view for view in views if view.broker_id == broker.broker_id]
                committed = max((view.high_watermark for view in views), default=0)
                if not own or own[0].log_end_offset < committed:
                    return False
        return True
