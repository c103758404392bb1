"""Processes and machines that die, stand still and come back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from tidelog.simulation.cluster import SimulatedBroker
from tidelog.simulation.faults.plan import Fault
from tidelog.simulation.faults.site import Act, Effect, Site


def kill(site: Site, fault: Fault) -> Effect | None:
    """kill -9, of one or of all."""
    running = _running(_meant(site, fault))
    for broker in running:
        broker.kill()
    return _down(site, running)


def power_cut(site: Site, fault: Fault) -> Effect | None:
    """The machine of one, or of all, goes dark."""
    running = _running(_meant(site, fault))
    for broker in running:
        broker.power_cut()
    return _down(site, running)


def bounce(site: Site, fault: Fault) -> Effect | None:
    """Down and up in one instant."""
    broker = site.broker(fault)
    if not broker.node.is_running:
        return None
    broker.bounce()
    return Effect()


def pause(site: Site, fault: Fault) -> Effect | None:
    """SIGSTOP; whoever is dead or stands still already is left alone."""
    broker = site.broker(fault)
    process = broker.node.process
    if not broker.node.is_running or process.is_paused:
        return None
    broker.pause()

    def undo() -> None:
        if broker.node.process is process and process.is_alive and process.is_paused:
            broker.resume()

    return Effect(undo=undo)


def clean_restart(site: Site, fault: Fault) -> Effect | None:
    """A controlled shutdown; one that hangs is ended by force when it should have been over."""
    broker = site.broker(fault)
    process = broker.node.process
    if broker.broker is None or not broker.is_ready or process.is_paused:
        return None
    broker.broker.stop()
    site.supervisor.hold_down(broker)

    def undo() -> None:
        if broker.node.process is process and process.is_alive:
            broker.kill()
        site.supervisor.let_up(broker)

    return Effect(undo=undo)


def _meant(site: Site, fault: Fault) -> Iterable[SimulatedBroker]:
    return [site.broker(fault)] if fault.targets else site.brokers()


def _running(brokers: Iterable[SimulatedBroker]) -> list[SimulatedBroker]:
    return [broker for broker in brokers if broker.node.is_running]


def _down(site: Site, brokers: list[SimulatedBroker]) -> Effect | None:
    if not brokers:
        return None
    for broker in brokers:
        site.supervisor.hold_down(broker)
    return Effect(undo=partial(_up, site, brokers))


def _up(site: Site, brokers: list[SimulatedBroker]) -> None:
    for broker in brokers:
        site.supervisor.let_up(broker)


ACTS: Final[dict[str, Act]] = {
    "kill": kill,
    "bounce": bounce,
    "kill-all": kill,
    "power-cut": power_cut,
    "power-cut-all": power_cut,
    "pause": pause,
    "clean-restart": clean_restart,
}
