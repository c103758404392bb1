"""I14: the tasks, connections, open files and timers of a process stay within bounds, and come back to few when all is quiet.

The bounds are far above what a cluster of this size needs and far below what a leak reaches. Not claimed: bytes of memory, which the
simulation does not model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.observer import Snapshot
from tidelog.storage.names import LOG

if TYPE_CHECKING:  # Imports the checkers.
    from tidelog.simulation.cluster import SimulatedCluster


class Usage(NamedTuple):
    """What one node holds at one instant; segments are what its files are for."""

    node: str
    tasks: int
    connections: int
    files: int
    segments: int


class Bounds(NamedTuple):
    """The most a node may hold."""

    tasks: int
    connections: int
    files: int  # beside those of segments
    files_per_segment: int


UNDER_LOAD: Final = Bounds(tasks=300, connections=300, files=50, files_per_segment=8)
WHEN_QUIET: Final = Bounds(tasks=80, connections=40, files=20, files_per_segment=8)
WHEN_GONE: Final = Bounds(tasks=5, connections=5, files=0, files_per_segment=0)  # of clients that have ended
TIMERS_MAX: Final = 20_000
LOOK_EVERY_MS: Final = 500.0


class ResourcesBounded:
    """Counts are kept by the world; still, one look in half a second finds what leaks."""

    name = "I14 resources are bounded"

    def __init__(self, usages: Callable[[], Iterable[Usage]], timer_count: Callable[[], int]) -> None:
        self._usages = usages
        self._timer_count = timer_count
        self._next_look_ms = 0.0

    @classmethod
    def of(cls, cluster: SimulatedCluster) -> ResourcesBounded:
        """The checker of a cluster."""
        return cls(lambda: usages_of(cluster), lambda: len(cluster.world.loop.timers))

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Nodes that hold too much."""
        if snapshot.now_ms < self._next_look_ms:
            return
        self._next_look_ms = snapshot.now_ms + LOOK_EVERY_MS
        for usage in self._usages():
            yield from excesses(usage, UNDER_LOAD)
        if self._timer_count() > TIMERS_MAX:
            yield f"{self._timer_count()} timers are set, at most {TIMERS_MAX} should be"


class ResourcesReturned:
    """The same when the load is over: what was taken for it has been given back."""

    name = "I14 resources are given back"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Nodes that still hold too much."""
        for usage in usages_of(ending.cluster):
            yield from excesses(usage, WHEN_GONE if usage.node == ending.cluster.client.name else WHEN_QUIET)


def usages_of(cluster: SimulatedCluster) -> Iterator[Usage]:
    """What each machine of a cluster holds now; a process that is down holds nothing."""
    for broker in cluster.brokers.values():
        if broker.node.is_running:
            node = broker.node
            yield Usage(
                node=node.name,
                tasks=node.process.task_count,
                connections=len(node.host.transports),
                files=len(node.disk.open_files),
                segments=node.disk.count_of(f"*{LOG}"),  # A log is open before it is served.
            )
    client = cluster.client
    yield Usage(client.name, client.process.task_count, len(client.host.transports), len(client.disk.open_files), 0)


def excesses(usage: Usage, bounds: Bounds) -> Iterator[str]:
    """What of it is too much."""
    files_max = bounds.files + bounds.files_per_segment * usage.segments
    for what, count, most in (
        ("tasks", usage.tasks, bounds.tasks),
        ("connections", usage.connections, bounds.connections),
        ("open files", usage.files, files_max),
    ):
        if count > most:
            yield f"{usage.node} holds {count} {what}, at most {most} should be"
