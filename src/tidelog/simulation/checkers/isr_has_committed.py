"""I5, StrongIsr: all that lies below any presumed leader's high watermark is on every running member of the true ISR.

The true ISR is the registry's. A member that runs but has not yet heard of its role has its log all the same, and is asked too.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.observer import ReplicaView, Snapshot


class IsrHasCommitted:
    """Compares each leader with each running member."""

    name = "I5 the ISR has what is committed"

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Members that lack committed batches."""
        for leader in snapshot.leaders():
            state = snapshot.states.get(leader.topic_partition)
            if state is None:
                continue
            for member in snapshot.replicas[leader.topic_partition]:
                if member.broker_id in state.isr and member is not leader:
                    yield from _missing(leader, member)


def _missing(leader: ReplicaView, member: ReplicaView) -> Iterator[str]:
    held = frozenset(member.batches)
    for batch in leader.below(leader.high_watermark):
        if batch not in held and batch.last_offset >= member.log_start_offset:
            yield (
                f"{leader.topic_partition}: {batch} is below the high watermark {leader.high_watermark} of broker "
                f"{leader.broker_id} in epoch {leader.leader_epoch}, but broker {member.broker_id} of the ISR, which ends at "
                f"{member.log_end_offset}, lacks it"
            )
            return
