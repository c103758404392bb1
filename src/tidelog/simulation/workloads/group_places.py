"""The places of a group's members."""

from __future__ import annotations

from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.group_member import Member, MemberPlan
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.places import Place
from tidelog.simulation.world import Node


class MemberPlace(Place[Member]):
    """One machine, whose process is a member; it leaves its group when it is asked to end, unless it is static."""

    def __init__(self, node: Node, plan: MemberPlan, history: History, randomness: SimulatedRandomness) -> None:
        super().__init__(
            node,
            lambda process, life: Member(process, plan, history, randomness.stream(f"life {life}")),
            on_killed=lambda member: history.groups.end(member.process),
        )
        self._groups = history.groups

    def pause(self) -> None:
        """SIGSTOP, which the history is told: whoever sleeps hears late what it was told."""
        super().pause()
        if self.inhabitant is not None and self.is_running:
            self._groups.asleep[self.inhabitant.process] = None

    def resume(self) -> None:
        """SIGCONT."""
        super().resume()
        if self.inhabitant is not None:
            self._groups.asleep.pop(self.inhabitant.process, None)

    @property
    def member(self) -> Member | None:
        """Who lives there, or lived there last."""
        return self.inhabitant
