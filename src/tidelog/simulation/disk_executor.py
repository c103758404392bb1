"""The threads of a log directory and the child process, as delays: work runs inline on the loop after a seeded wait."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import ParamSpec, TypeVar

A = ParamSpec("A")
R = TypeVar("R")


class SimulatedExecutor(Executor):
    """A few workers. The simulated loop asks when a piece of work will be finished; without a loop, `submit` runs it at once."""

    def __init__(self, latency_ms: Callable[[], float], *, workers: int = 1) -> None:
        self._latency_ms = latency_ms
        self._busy_until_ms = [0.0] * workers

    def finish_ms(self, now_ms: float) -> float:
        """When work handed over now will be finished, by the worker that is free first."""
        worker = self._busy_until_ms.index(min(self._busy_until_ms))
        self._busy_until_ms[worker] = max(self._busy_until_ms[worker], now_ms) + self._latency_ms()
        return self._busy_until_ms[worker]

    def stall_until(self, until_ms: float) -> None:
        """Work handed over from now on is not begun before `until_ms`."""
        self._busy_until_ms = [max(busy_ms, until_ms) for busy_ms in self._busy_until_ms]

    def end_stall(self, now_ms: float) -> None:
        """Work handed over from now on is begun at once; what waits already waits on."""
        self._busy_until_ms = [min(busy_ms, now_ms) for busy_ms in self._busy_until_ms]

    def submit(self, fn: Callable[A, R], /, *args: A.args, **kwargs: A.kwargs) -> Future[R]:
        """Run it now."""
        future: Future[R] = Future()
        try:
            result = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # as every executor does: the failure belongs to whoever waits for the result
            future.set_exception(error)
        else:
            future.set_result(result)
        return future


class SimulatedChild(SimulatedExecutor):
    """A worker that is another process: what goes in and comes out is pickled, except the disk, which both share."""

    def __init__(self, latency_ms: Callable[[], float], disk: object) -> None:
        super().__init__(latency_ms)
        self._disk = disk
        self._is_doomed = False

    def doom(self) -> None:
        """Somebody will kill the child at its next work; a new one takes its place."""
        self._is_doomed = True

    def submit(self, fn: Callable[A, R], /, *args: A.args, **kwargs: A.kwargs) -> Future[R]:
        """Run it now, on copies."""
        if self._is_doomed:
            self._is_doomed = False
            died: Future[R] = Future()
            died.set_exception(BrokenExecutor("the child process was terminated abruptly"))
            return died
        return super().submit(self._in_child(fn), *args, **kwargs)

    def _in_child(self, fn: Callable[A, R]) -> Callable[A, R]:
        def run(*args: A.args, **kwargs: A.kwargs) -> R:
            try:
                function, arguments, keywords = self._copied((fn, args, kwargs))
                result = function(*arguments, **keywords)
            except Exception as error:  # noqa: BLE001  # whatever it is, it travels home pickled
                raise self._copied(error) from None
            return self._copied(result)

        return run

    def _copied(self, value: R) -> R:
        written = io.BytesIO()
        _Pickler(written, self._disk).dump(value)
        written.seek(0)
        copied: R = _Unpickler(written, self._disk).load()
        return copied


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, disk: object) -> None:
        super().__init__(file)
        self._disk = disk

    def persistent_id(self, obj: object) -> str | None:
        return "disk" if obj is self._disk else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, disk: object) -> None:
        super().__init__(file)
        self._disk = disk

    def persistent_load(self, pid: object) -> object:
        return self._disk
