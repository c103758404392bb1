"""Wall clocks that jump and drift."""

from __future__ import annotations

from typing import Final

from tidelog.simulation.faults.plan import Fault
from tidelog.simulation.faults.site import Act, Effect, Site


def clock_jump(site: Site, fault: Fault) -> Effect | None:
    """It stays."""
    site.broker(fault).node.clock.jump_wall_ms(fault.amount)
    return Effect() if fault.amount else None


def clock_drift(site: Site, fault: Fault) -> Effect | None:
    """The newest of several drifts is in force."""
    name = fault.targets[0]
    clock = site.broker(fault).node.clock

    def apply() -> None:
        drifts = site.clocks.of(name)
        clock.set_drift(drifts[-1].amount if drifts else 0.0)

    def undo() -> None:
        site.clocks.remove(name, fault)
        apply()

    site.clocks.add(name, fault)
    apply()
    return Effect(undo=undo) if fault.amount else None


ACTS: Final[dict[str, Act]] = {"clock-jump": clock_jump, "clock-drift": clock_drift}
