"""The low-priority child process behind `Disk.child`: one worker, spawned on first use, respawned if it dies, dead when we are."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final, ParamSpec, TypeVar

CHILD_NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1

A = ParamSpec("A")
R = TypeVar("R")


class ChildProcess(Executor):
    """An executor whose worker dies with this process, also on SIGKILL.

    Submit from a thread that lives as long as the process (the loop's): Linux sends the death signal when the spawning *thread* ends.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._pid: Future[int] | None = None

    def submit(self, fn: Callable[A, R], /, *args: A.args, **kwargs: A.kwargs) -> Future[R]:
        """Run `fn` in the child. If the child died since, a new one is spawned; what died with it fails with BrokenProcessPool."""
        try:
            return self._running_pool().submit(fn, *args, **kwargs)
        except BrokenProcessPool:
            self.shutdown(wait=False)
            return self._running_pool().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: FBT001, FBT002
        """End the child at once, in the middle of its work if need be: it only ever writes files that recovery discards."""
        if self._pool is None:
            return
        if self._pid is not None and self._pid.done() and self._pid.exception() is None:
            pid = self._pid.result()
            for child in multiprocessing.active_children():
                if child.pid == pid:
                    child.kill()
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
        self._pool = self._pid = None

    def _running_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, initializer=_settle_as_child, initargs=(os.getpid(),))
            self._pid = self._pool.submit(os.getpid)
        return self._pool


def die_with(parent: int) -> None:
    """Have the kernel end this process, a fresh child of `parent`, when its parent is gone, however it went."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # The parent died before the line above; its death signal will not come.
        os._exit(1)


def _settle_as_child(parent: int) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group; the parent decides what it means.
    die_with(parent)
    os.nice(CHILD_NICENESS)
