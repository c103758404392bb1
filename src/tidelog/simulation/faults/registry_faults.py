"""A registry that is away, slow or late, and sessions that end."""

from __future__ import annotations

from functools import partial
from typing import Final

from tidelog.controller import layout
from tidelog.registry import Delete
from tidelog.simulation.faults.menu import Family
from tidelog.simulation.faults.plan import Fault
from tidelog.simulation.faults.site import Act, Effect, Site
from tidelog.simulation.faults.supervisor import EVERYBODY


def registry_cut(site: Site, fault: Fault) -> Effect | None:
    """For one broker."""
    (name,) = fault.targets
    site.cut_registry(name, fault)
    return Effect(undo=partial(site.mend_registry, name, fault))


def registry_away(site: Site, fault: Fault) -> Effect | None:
    """For everybody; one that is away already cannot leave."""
    if not site.cluster.store.is_available:
        return None
    site.cut_registry(EVERYBODY, fault)
    return Effect(undo=partial(site.mend_registry, EVERYBODY, fault))


def session_expire(site: Site, fault: Fault) -> Effect | None:
    """Only where there is a session."""
    (name,) = fault.targets
    return Effect() if site.cluster.store.expire_node(name) else None


def depose(site: Site, fault: Fault) -> Effect | None:
    """For a while two brokers believe to be the controller, and both have a session."""
    del fault
    store, controller = site.cluster.store, site.cluster.controller
    if controller is None or not store.is_available or store.tree.peek(layout.CONTROLLER) is None:
        return None
    hear_again = store.deafen(controller.node.name)
    operator = store.tree.open_session()
    store.tree.multi([Delete(layout.CONTROLLER)], session_id=operator)
    store.tree.expire_session(operator)
    return Effect(undo=hear_again)


def slower(site: Site, fault: Fault) -> Effect | None:
    """Watches that come later, or calls that take longer."""
    site.registry_pace.add(fault.kind, fault)
    site.pace_registry()

    def undo() -> None:
        site.registry_pace.remove(fault.kind, fault)
        site.pace_registry()

    return Effect(undo=undo)


def cut_after_writes(site: Site, fault: Fault) -> Effect | None:
    """It acts when the last write has come; by chance that one happens, and nobody is told."""
    store = site.cluster.store
    if not store.is_available or site.registry_cuts.of(_COUNTED):
        return None
    site.registry_cuts.add(_COUNTED, fault)
    site.supervisor.trouble_begins(Family.REGISTRY, EVERYBODY)
    cut = store.cut_after_writes(int(fault.amount), next_write_happens=site.chance.below(2) == 1)

    def undo() -> None:
        site.registry_cuts.remove(_COUNTED, fault)
        cut.cancel()
        if not site.registry_cuts.of(EVERYBODY):
            store.is_available = True
        site.supervisor.trouble_ends(Family.REGISTRY, EVERYBODY)

    return Effect(undo=undo, has_acted=lambda: cut.has_come)


_COUNTED: Final = "counted writes"

ACTS: Final[dict[str, Act]] = {
    "registry-cut": registry_cut,
    "registry-away": registry_away,
    "session-expire": session_expire,
    "depose": depose,
    "late-watches": slower,
    "slow-registry": slower,
    "cut-after-writes": cut_after_writes,
}
