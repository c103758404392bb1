"""Spark processes that an earlier run of a pipeline left behind, because it was killed: they end by themselves, but not at once."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.pipeline.declared.connect import MARK

END_WITHIN_S: Final = 15.0
_LOOK_AGAIN_S: Final = 0.1
_PROC: Final = Path("/proc")


def leftovers(storage: Path, *, proc: Path = _PROC) -> list[int]:
    """The JVMs of this pipeline. Whoever asks holds its lock, so that none of them belongs to a run that is under way."""
    mark = f"{MARK}={storage}".encode()
    return [int(each.name) for each in proc.iterdir() if each.name.isdigit() and mark in _command(each)]


async def until_gone(storage: Path) -> None:
    """Wait for them, and kill those that do not end: two Sparks on one checkpoint, or one catalog, get into each other's way."""
    with suppress(TimeoutError):
        async with asyncio.timeout(END_WITHIN_S):
            while leftovers(storage):  # noqa: ASYNC110  # they are not our children: no event tells of their end
                await asyncio.sleep(_LOOK_AGAIN_S)
    for pid in leftovers(storage):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _command(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it ended while we looked, or is somebody else's
        return []
