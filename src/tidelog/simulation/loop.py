# ruff: noqa: SLF001
"""The simulated event loop: waiting moves a virtual clock, and the order between processes is drawn from the seed.

Everything that asyncio promises inside one process holds (callbacks are first in, first out); nothing is promised between processes.
Each callback belongs to the process in whose context it was scheduled. A killed process runs nothing any more, not even a `finally`,
so its coroutines are held until the loop is closed; a paused one keeps its callbacks until it is resumed.

This file touches private names of asyncio (Python 3.11 to 3.13): `_run_once`, `_stopping`, `_check_closed`, `Handle._run`, `Handle._cancelled`,
`Handle._context`, `TimerHandle._scheduled`, `Task._log_destroy_pending`, `Task._log_traceback`, `_asyncgen_finalizer_hook`. No other file does.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, TypeVarTuple

from tidelog.simulation.disk_executor import SimulatedExecutor
from tidelog.simulation.failures import Deadlock, Forbidden, Livelock, SimulationFailed, told
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.virtual_time import VirtualTime

CALLBACKS_PER_INSTANT_MAX: Final = 200_000
_CANCELLED_TIMERS_KEPT_MAX: Final = 1_000
_WAITS_IN_FINALLY_MAX: Final = 100

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_Work: TypeAlias = Coroutine[Any, Any, T] | Generator[Any, None, T]


class Process:
    """One life of one node: what it scheduled, and whether it still runs. Schedule in its `context` to act as it."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.is_alive = True
        self.is_paused = False
        self.is_runnable = False  # among those that the loop chooses from
        self.task_count = 0  # that are not done
        self.ready: deque[asyncio.Handle] = deque()
        self.buried: list[object] = []
        self.context = contextvars.copy_context()
        self.context.run(_current_process.set, self)

    def __repr__(self) -> str:
        return f"{self.name}#{self.incarnation}"


_current_process: ContextVar[Process] = ContextVar("process")


def current_process() -> Process | None:
    """The process whose code is running, or None for the world itself."""
    return _current_process.get(None)


def _owner(context: Context | None) -> Process | None:
    return _current_process.get(None) if context is None else context.get(_current_process)


class OwnedTask(asyncio.Task[T]):
    """A task that knows whose it is."""

    owner: Process


class SimulatedLoop(VirtualTime, asyncio.BaseEventLoop):
    """One loop for all processes of a world. Time starts at zero and passes only when nobody has anything to do."""

    def __init__(self, randomness: SimulatedRandomness | None = None) -> None:
        super().__init__()
        self.callback_count = 0
        self.world = Process("world", 0)
        self.world.context = contextvars.copy_context()
        self.failures: list[SimulationFailed] = []
        self._randomness = randomness or SimulatedRandomness("sched")
        self._thread = threading.get_ident()
        self.timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap, with some that were cancelled
        self._timer_count = 0
        self._cancelled_timer_count = 0
        self._task_count = 0
        self._runnable: list[Process] = []
        self._callbacks_this_instant = 0
        self._dead: list[Process] = []
        self._unheard: list[weakref.ref[asyncio.Future[Any]]] = []
        self._is_burying = False
        self.set_debug(enabled=False)
        self.set_exception_handler(_note_failure)

    # Processes.

    def kill(self, process: Process) -> None:
        """The process runs nothing any more from the next callback on. What it was waiting in is kept, so that no `finally` runs."""
        if not process.ready:  # Else somebody may be about to hear.
            self._fail_unheard(lambda task: task.owner is process)
        process.is_alive = False
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, OwnedTask) and task.owner is process]
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        process.buried.extend(tasks)
        process.buried.extend(process.ready)
        process.ready.clear()
        self._set_runnable(process)
        self._dead.append(process)

    def pause(self, process: Process) -> None:
        """SIGSTOP: callbacks and timers pile up."""
        process.is_paused = True
        self._set_runnable(process)

    def resume(self, process: Process) -> None:
        """SIGCONT: what piled up runs, in order."""
        process.is_paused = False
        self._set_runnable(process)

    def fail(self, process: Process, what: str, error: object) -> None:
        """Note a failure of a process; the run ends with it after the current callback."""
        failure = SimulationFailed(f"{process} at {self._now:.6f} s: {what}: {told(error)}")
        failure.__cause__ = error if isinstance(error, BaseException) else None
        self.failures.append(failure)

    # The loop.

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Timers of one instant fire in the order in which they were set."""
        self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if self._is_burying:
            return timer
        self._timer_count += 1
        heapq.heappush(self.timers, (when, self._timer_count, timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """There are no threads: the same as `call_soon`."""
        if threading.get_ident() != self._thread:
            raise Forbidden("a thread reached into the simulation")
        return self.call_soon(callback, *args, context=context)

    def create_task(  # type: ignore[override]
        self, coro: _Work[T], *, name: str | None = None, context: Context | None = None
    ) -> OwnedTask[T]:
        """A task of the current process, named by this loop's own counter so that names repeat with the seed."""
        self._check_closed()  # type: ignore[attr-defined]
        self._task_count += 1
        task = OwnedTask(coro, loop=self, name=name or f"Task-{self._task_count}", context=context)
        task.owner = _owner(context) or self.world
        if self._is_burying:
            coro.close()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        else:
            task.owner.task_count += 1
            task.add_done_callback(self._note_done)
        return task

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Only executors of a simulated disk: the work runs here and now plus a seeded latency."""
        if not isinstance(executor, SimulatedExecutor):
            raise Forbidden("threads and child processes are reached through the executors of the disk only")
        future: asyncio.Future[T] = self.create_future()
        self.call_at(executor.finish_ms(self._now * 1000) / 1000, _run_work, future, executor, func, *args)
        return future

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run `work` as the world and return its result; fail if anything failed beside it."""
        task = self.world.context.copy().run(self.create_task, work)
        try:
            result = self.run_until_complete(task)
        except BaseException:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._raise_failure()
            raise
        self._find_unheard()
        self._raise_failure()
        return result

    def close(self) -> None:
        """End every process and let go of what was held, running no callback. What a `finally` does now reaches nobody."""
        if self.is_closed():
            return
        self._is_burying = True
        tasks = {task: None for process in self._dead for task in process.buried if isinstance(task, asyncio.Task)}
        tasks |= dict.fromkeys(sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()))
        asyncio._set_running_loop(self)  # What the dead still try finds a loop that ignores it.
        try:
            for task in tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _bury(task)
        finally:
            asyncio._set_running_loop(None)
        self.timers.clear()
        super().close()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Behind everything that the process of the context has to do already."""
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_burying:
            self._enqueue(handle)
        return handle

    def run_next(self, callback: Callable[[], object], context: Context) -> None:
        """As `call_soon`, for the world's last callback of an instant: whoever would come next anyway is run at once.

        Not if anybody else has something to do; then the order is drawn. The callback is one of its process all the same.
        """
        process = _owner(context) or self.world
        if self._runnable or self._is_burying or not process.is_alive or process.is_paused:
            self.call_soon(callback, context=context)
        else:
            self._run_handle(process, asyncio.Handle(callback, (), self, context))

    def _enqueue(self, handle: asyncio.Handle) -> None:
        process: Process = handle._context.get(_current_process) or self.world  # type: ignore[attr-defined]
        if not process.is_alive:
            process.buried.append(handle)
            return
        process.ready.append(handle)
        if not process.is_runnable:
            self._set_runnable(process)

    def _set_runnable(self, process: Process) -> None:
        is_runnable = bool(process.ready) and process.is_alive and not process.is_paused
        if is_runnable and not process.is_runnable:
            self._runnable.append(process)
        elif not is_runnable and process.is_runnable:
            self._runnable.remove(process)
        process.is_runnable = is_runnable

    def _run_once(self) -> None:
        """Run callbacks, one after the other, until somebody stops the loop."""
        runnable = self._runnable
        while True:
            if not runnable:
                self._let_time_pass()
            if runnable:
                process = runnable[self._randomness.below(len(runnable))] if len(runnable) > 1 else runnable[0]
                handle = process.ready.popleft()
                if not process.ready:
                    runnable.remove(process)
                    process.is_runnable = False
                if not handle._cancelled:
                    self._run_handle(process, handle)
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _run_handle(self, process: Process, handle: asyncio.Handle) -> None:
        self.callback_count += 1
        self._callbacks_this_instant += 1
        if self._callbacks_this_instant > CALLBACKS_PER_INSTANT_MAX:
            raise Livelock(
                f"{CALLBACKS_PER_INSTANT_MAX} callbacks at {self._now:.6f} s, the last one of {process}: {handle!r}"
            )
        handle._run()
        if self.failures:
            raise self.failures[0]

    def _let_time_pass(self) -> None:
        timers = self.timers
        while timers and timers[0][2]._cancelled:
            self._pop_timer()
        if not timers:
            raise Deadlock(f"nothing is ready and no timer is set at {self._now:.6f} s")
        now = self._now = max(self._now, timers[0][0])
        self._callbacks_this_instant = 0
        while timers and timers[0][0] <= now:
            timer = self._pop_timer()
            if not timer._cancelled:
                self._enqueue(timer)

    def _pop_timer(self) -> asyncio.TimerHandle:
        timer = heapq.heappop(self.timers)[2]
        timer._scheduled = False  # type: ignore[attr-defined]
        if timer._cancelled:
            self._cancelled_timer_count -= 1
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._cancelled_timer_count += 1
        if self._cancelled_timer_count > max(_CANCELLED_TIMERS_KEPT_MAX, len(self.timers) // 2):
            self.timers = [entry for entry in self.timers if not entry[2]._cancelled]
            heapq.heapify(self.timers)
            self._cancelled_timer_count = 0

    def _note_done(self, task: asyncio.Future[Any]) -> None:
        if isinstance(task, OwnedTask):
            task.owner.task_count -= 1
        if _is_unheard(task):
            self._unheard.append(weakref.ref(task))

    def _find_unheard(self) -> None:
        # Asyncio reports a failed task when it is thrown away, which may take the collector; it runs only if there is such a task.
        self._unheard = [found for found in self._unheard if _is_unheard(found())]
        if self._unheard:
            gc.collect()

    def fail_unheard(self) -> None:
        """The run is over: whoever has not asked by now what a task died of will not ask."""
        self._fail_unheard(lambda task: task.owner.is_alive)
        self._raise_failure()

    def _fail_unheard(self, is_meant: Callable[[OwnedTask[Any]], bool]) -> None:
        # A task that somebody holds is never thrown away, so asyncio never reports it.
        for found in self._unheard:
            task = found()
            if isinstance(task, OwnedTask) and _is_unheard(task) and is_meant(task):
                self.fail(task.owner, f"nobody has asked what {_named(task)} died of", task.exception())

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[object, object]) -> None:
        if not self._is_burying:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]

    def _raise_failure(self) -> None:
        if self.failures:
            raise self.failures[0]

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""

    def _process_events(self, event_list: list[object]) -> None:
        """No selector, no events."""


def _run_work(future: asyncio.Future[T], executor: SimulatedExecutor, func: Callable[[*Ts], T], *args: *Ts) -> None:
    if future.cancelled():  # A thread pool drops work that was cancelled before it began.
        return
    done = executor.submit(func, *args)
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


def _is_unheard(task: asyncio.Future[Any] | None) -> bool:
    return task is not None and task._log_traceback


def _note_failure(loop: asyncio.AbstractEventLoop, details: dict[str, object]) -> None:
    if not isinstance(loop, SimulatedLoop) or loop._is_burying:
        return
    task = details.get("future") or details.get("task")
    owner = getattr(task, "owner", None) or current_process()
    if owner is None and isinstance(handle := details.get("handle"), asyncio.Handle):
        owner = _owner(handle._context)  # type: ignore[attr-defined]
    if isinstance(owner, Process) and not owner.is_alive:
        return
    what = str(details.get("message"))
    loop.fail(
        owner if isinstance(owner, Process) else loop.world,
        f"{what}: {_named(task)}" if isinstance(task, asyncio.Task) else what,
        details.get("exception"),
    )


def _named(task: asyncio.Task[Any]) -> str:
    """What a task is called, and what it ran."""
    return f"{task.get_name()}, which ran {getattr(task.get_coro(), '__qualname__', 'nothing')}"


class _Buried(BaseException):
    """Ends the coroutines of the dead. Not GeneratorExit, which a coroutine that waits once more in a `finally` may not ignore."""


def _bury(task: asyncio.Task[object]) -> None:
    coroutine = task.get_coro()
    if coroutine is None:
        return
    for _ in range(_WAITS_IN_FINALLY_MAX):
        try:
            coroutine.throw(_Buried)
        except BaseException:  # noqa: BLE001  # The dead may raise what they like; nobody hears.
            return
    _undead.append(task)  # It goes on waiting whatever it is told: never let go of it.


_undead: Final[list[object]] = []


def _forbidden(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise Forbidden(f"loop.{name} is the real world; use the runtime")

    return refuse


for _name in (
    *("add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler", "remove_signal_handler"),
    *("connect_accepted_socket", "connect_read_pipe", "connect_write_pipe", "create_connection", "create_server"),
    *(
        "create_datagram_endpoint",
        "create_unix_connection",
        "create_unix_server",
        "getaddrinfo",
        "getnameinfo",
        "sendfile",
    ),
    *("sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_sendall", "sock_sendfile"),
    *("sock_sendto", "start_tls", "subprocess_exec", "subprocess_shell", "set_default_executor"),
):
    setattr(SimulatedLoop, _name, _forbidden(_name))
