"""A child process that is a copy of this one: everything is imported already, so it is at work in a few milliseconds.

Forking is safe here because the parent has one thread and no event loop; whoever calls `fork` must keep it so. The child
dies with its parent, leaves Ctrl-C to it, and talks to it through its stdout and stderr.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from tidelog.cli.failure import EXIT_FAILED, CommandFailed
from tidelog.runtime.real_child import die_with

STOP_WITH_EVERYBODY: Final = signal.SIGUSR1  # what a parent that ends all its children says instead of SIGTERM
_PR_SET_NAME: Final = 15
_FIRST_UNUSED_FD: Final = 3
_FD_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A running child: its process id, and where its stdout and stderr can be read without blocking."""

    pid: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Let go of what it wrote."""
        os.close(self.stdout)
        os.close(self.stderr)


def fork(run: Callable[[], int], *, name: str) -> Forked:
    """Run a function in a child; what it returns is the exit code. `name` is how `ps -o comm` and `top` call it."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    out_read, out_write = os.pipe()
    error_read, error_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(run, parent, name, out_write, error_write)
    for mine, theirs in ((out_read, out_write), (error_read, error_write)):
        os.close(theirs)
        os.set_blocking(mine, False)
    return Forked(pid=pid, stdout=out_read, stderr=error_read)


def _become(run: Callable[[], int], parent: int, name: str, stdout: int, stderr: int) -> NoReturn:
    """Be the child, and never return into the parent's code."""
    code = EXIT_FAILED
    try:
        _settle(parent, name, stdout, stderr)
        code = _exit_code(run)
    finally:
        if sys.exc_info()[0] is not None:
            sys.excepthook(*sys.exc_info())
        _flush()
        os._exit(code)


def _settle(parent: int, name: str, stdout: int, stderr: int) -> None:
    die_with(parent)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):  # they reach the whole process group; the parent decides
        signal.signal(number, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(_FIRST_UNUSED_FD, _FD_MAX)  # the pipes of the siblings among them
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def _exit_code(run: Callable[[], int]) -> int:
    try:
        return run()
    except CommandFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return failure.exit_code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            return  # The parent is gone; so are we in a moment.
