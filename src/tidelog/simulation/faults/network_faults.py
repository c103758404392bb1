"""Links that are cut, slow, thin or shaky."""

from __future__ import annotations

from functools import partial
from typing import Final

from tidelog.simulation.faults.link_troubles import Trouble, both_ways
from tidelog.simulation.faults.menu import CLIENT, REGISTRY
from tidelog.simulation.faults.plan import Fault
from tidelog.simulation.faults.site import Act, Effect, Site


def partition(site: Site, fault: Fault) -> Effect | None:
    """Two sides; the registry, if it is named, can be reached from the side that names it."""
    inside = tuple(host for name in fault.targets if name != REGISTRY for host in site.hosts(name))
    everybody = (*site.plan.broker_names, *site.hosts(CLIENT))
    outside = tuple(host for host in everybody if host not in inside)
    without = [name for name in site.plan.broker_names if name in outside] if REGISTRY in fault.targets else []
    for name in without:
        site.cut_registry(name, fault)
    cut = _begin(site, Trouble(pairs=both_ways(inside, outside), is_cut=True))

    def undo() -> None:
        cut.undo()
        for name in without:
            site.mend_registry(name, fault)

    return Effect(undo=undo)


def isolate(site: Site, fault: Fault) -> Effect | None:
    """One broker alone."""
    return partition(site, fault)


def one_way_cut(site: Site, fault: Fault) -> Effect | None:
    """From the first to the second."""
    source, target = fault.targets
    pairs = tuple((one, other) for one in site.hosts(source) for other in site.hosts(target))
    return _begin(site, Trouble(pairs=pairs, is_cut=True))


def cut(site: Site, fault: Fault) -> Effect | None:
    """Both ways between two."""
    return _begin(site, Trouble(pairs=_pairs(site, fault), is_cut=True))


def slow_link(site: Site, fault: Fault) -> Effect | None:
    """Latency."""
    return _begin(site, Trouble(pairs=_pairs(site, fault), latency_ms=fault.amount))


def thin_link(site: Site, fault: Fault) -> Effect | None:
    """Little room."""
    return _begin(site, Trouble(pairs=_pairs(site, fault), bytes_per_ms=fault.amount))


def flaky(site: Site, fault: Fault) -> Effect | None:
    """Connections that break by chance; it has acted once one has."""
    fabric = site.cluster.world.fabric
    before = fabric.reset_count
    effect = _begin(site, Trouble(pairs=_pairs(site, fault), reset_chance=fault.amount))
    return Effect(undo=effect.undo, has_acted=lambda: fabric.reset_count > before)


def lossy(site: Site, fault: Fault) -> Effect | None:
    """Chunks that come late because they were lost first."""
    return _begin(site, Trouble(pairs=_pairs(site, fault), loss_chance=fault.amount))


def reset(site: Site, fault: Fault) -> Effect | None:
    """Once, and only if there are connections."""
    one, other = (site.hosts(name) for name in fault.targets)
    fabric = site.cluster.world.fabric
    count = sum(fabric.reset(source, target) for source in one for target in other)
    return Effect() if count else None


def flapping(site: Site, fault: Fault) -> Effect | None:
    """Down for half of each turn, up for the other half, until it is undone."""
    down = Trouble(pairs=_pairs(site, fault), is_cut=True)
    is_over = False

    def go_down() -> None:
        if not is_over:
            site.links.begin(down)
            site.later(fault.amount / 2, go_up)

    def go_up() -> None:
        if not is_over:
            site.links.end(down)
            site.later(fault.amount / 2, go_down)

    def undo() -> None:
        nonlocal is_over
        is_over = True
        site.links.end(down)

    go_down()
    return Effect(undo=undo)


def _pairs(site: Site, fault: Fault) -> tuple[tuple[str, str], ...]:
    """The links between the two nodes that are named; a broker alone means those to the clients."""
    one, other = fault.targets if len(fault.targets) == 2 else (fault.targets[0], CLIENT)
    return both_ways(site.hosts(one), site.hosts(other))


def _begin(site: Site, trouble: Trouble) -> Effect:
    site.links.begin(trouble)
    return Effect(undo=partial(site.links.end, trouble))


ACTS: Final[dict[str, Act]] = {
    "partition": partition,
    "isolate": isolate,
    "one-way-cut": one_way_cut,
    "partial-cut": cut,
    "client-cut": cut,
    "slow-link": slow_link,
    "thin-link": thin_link,
    "reset": reset,
    "flaky": flaky,
    "lossy": lossy,
    "flapping": flapping,
}
