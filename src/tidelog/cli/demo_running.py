"""What both demos need of the command line: an event loop that Ctrl-C ends in order, a directory, and failures in the user's words."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tidelog.cli.failure import CommandFailed
from tidelog.cli.loops import run
from tidelog.client.errors import ClientError
from tidelog.pipeline.demo.processes import DemoFailed

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(work: Coroutine[object, object, T]) -> T | None:
    """What `work` returns, or None when a signal has ended it: the first lets it end in order, the next at once. Raises CommandFailed."""
    try:
        return run(_until_signal(work))
    except ExceptionGroup as group:
        failure = _first(group)
        if not isinstance(failure, DemoFailed | ClientError | OSError):
            raise
    except (DemoFailed, ClientError, OSError) as alone:
        failure = alone
    raise CommandFailed(str(failure)) from None


@dataclass(slots=True)
class Place:
    """A directory for everything a demo makes, and whether it is still there afterwards."""

    path: Path
    is_kept: bool


@contextmanager
def place_for(asked: Path | None) -> Iterator[Place]:
    """The directory that was asked for; or a temporary one, removed at the end, unless it ends badly: then its logs may say why."""
    if asked is not None:
        yield Place(asked.absolute(), is_kept=True)
        return
    place = Place(Path(tempfile.mkdtemp(prefix="tidelog-demo-")), is_kept=False)
    try:
        yield place
    except CommandFailed as failure:
        raise CommandFailed(f"{failure}\n  everything is kept in {place.path}", exit_code=failure.exit_code) from None
    if not place.is_kept:
        shutil.rmtree(place.path, ignore_errors=True)


async def _until_signal(work: Coroutine[object, object, T]) -> T | None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        await asyncio.wait({task})
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return None if task.cancelled() else task.result()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group of groups."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
