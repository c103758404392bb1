"""What ends a simulated run because no run may meet it."""

from __future__ import annotations


class SimulationFailed(Exception):
    """The run met something no run may meet; the message tells what, the cause where."""


class Livelock(SimulationFailed):
    """Callbacks keep waking each other while no time passes."""


class Deadlock(SimulationFailed):
    """Somebody waits, and nothing will ever happen."""


class Forbidden(SimulationFailed):
    """The code under simulation reached for the real world."""
