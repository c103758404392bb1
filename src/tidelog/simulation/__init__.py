"""Production brokers in a world that can be repeated: virtual time, seeded order, seeded faults, one trace per seed.

The twins of the five runtime interfaces live here beside the event loop that carries them. They pass `tests/conformance` together with
the real ones. Nothing outside `random.Random` seeded by the run may decide anything: no set order, no `hash(str)`, no clock, no thread.
"""

from __future__ import annotations

from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_faults import PowerCut
from tidelog.simulation.disk_image import Loss
from tidelog.simulation.failures import SimulationFailed
from tidelog.simulation.loop import SimulatedLoop
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.world import Node, World

__all__ = [
    "Loss",
    "Node",
    "PowerCut",
    "SimulatedClock",
    "SimulatedDisk",
    "SimulatedLoop",
    "SimulatedRandomness",
    "SimulationFailed",
    "World",
]
