"""What ends a simulated run because no run may meet it."""

from __future__ import annotations

import traceback
from typing import Final

_PLACES_MAX: Final = 4


class SimulationFailed(Exception):
    """The run met something no run may meet; the message tells what, the cause where."""


class Livelock(SimulationFailed):
    """Callbacks keep waking each other while no time passes."""


class Deadlock(SimulationFailed):
    """Somebody waits, and nothing will ever happen."""


class Forbidden(SimulationFailed):
    """The code under simulation reached for the real world."""


def told(error: object) -> str:
    """An exception as a reader of a report needs it: what it says, and the last lines of its traceback. Of a group, its first leaf."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, BaseException):
        return repr(error)
    frames = traceback.extract_tb(error.__traceback__)[-_PLACES_MAX:]
    places = [f"{_file(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
    return f"{error!r}, raised by {' > '.join(places)}" if places else repr(error)


def _file(path: str) -> str:
    """The end of a path: where the package lies differs between machines."""
    return "/".join(path.split("/")[-2:])
