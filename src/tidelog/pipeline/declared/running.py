"""One run of a pipeline, seen from outside Spark: holds the lock, starts the driver, hears it, publishes how it gets on, and ends it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from tidelog.pipeline.declared import board, state
from tidelog.pipeline.declared.board import Board
from tidelog.pipeline.declared.known import KnownPipeline, remember
from tidelog.pipeline.declared.leftovers import leftovers, until_gone
from tidelog.pipeline.declared.places import Places, state_dir
from tidelog.pipeline.declared.plan import TRIGGERED, RunPlan
from tidelog.pipeline.declared.process_identity import own_identity
from tidelog.pipeline.declared.spec import Spec
from tidelog.pipeline.declared.state import RunView, write_state
from tidelog.pipeline.demo.processes import Program
from tidelog.runtime.clock import Clock

PUBLISH_EVERY_S: Final = 1.0
STOP_WITHIN_S: Final = 30.0
STARTS_MAX: Final = 4
_LAST_WORDS_S: Final = 1.0
_LOG_LINES_SHOWN: Final = 8
_TRANSIENT: Final = ("this machine was too busy", "Illegal size of collection")
"""Faults of Spark's own start on a busy machine. Nothing is lost by them, and the next start goes on where this one ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who hears of a run: its state every second, and sentences in between."""

    show: Callable[[RunView], None]
    note: Callable[[str], None]


class PipelineRun:
    """A run, from its start to its end. Whoever makes it holds the lock of the pipeline."""

    def __init__(self, plan: RunPlan, spec: Spec, clock: Clock, audience: Audience) -> None:
        self._plan = plan
        self._places = Places(spec.storage)
        self._clock = clock
        self._audience = audience
        self._board = Board()
        self._reason: str | None = None
        self._failures_told: set[str] = set()
        self._has_ended = False  # the driver said that all is done
        self._stop = asyncio.Event()
        now_ms = clock.wall_ms()
        self._view = RunView(
            pipeline=spec.name,
            spec=str(spec.path),
            storage=str(spec.storage),
            mode=plan.mode,
            master=plan.master,
            process=own_identity(),
            state=state.STARTING,
            started_ms=now_ms,
            updated_ms=now_ms,
            log=str(self._places.log),
        )

    @property
    def view(self) -> RunView:
        """How it is, as of the last look."""
        return self._view

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End it in order, and soon."""
        self._stop.set()

    async def run(self) -> RunView:
        """Run to the end; how it ended."""
        self._prepare()
        publishing = asyncio.create_task(self._publish_often(), name="publishes the state of the run")
        try:
            if leftovers(self._places.storage):
                self._audience.note("a run that was killed has left Spark behind; waiting for its end")
                await until_gone(self._places.storage)
            await self._drive()
        finally:
            publishing.cancel()
            self._conclude()
        return self._view

    async def _drive(self) -> None:
        for start in range(1, STARTS_MAX + 1):
            await self._one_driver()
            if not self._may_try_again() or start == STARTS_MAX:
                return
            self._audience.note(f"{self._reason}; starting Spark again ({start + 1} of {STARTS_MAX})")
            self._reason = None
            self._board.begin_again()
            self._change(state.STARTING)

    def _may_try_again(self) -> bool:
        reasons = [self._reason or "", *(flow.failure or "" for flow in self._board.views(0))]
        is_transient = any(each in reason for each in _TRANSIENT for reason in reasons)
        return is_transient and not self._stop.is_set() and not self._has_ended and self._plan.mode == TRIGGERED

    async def _one_driver(self) -> None:
        """One life of a driver."""
        program = await Program.start(self._plan.command, log=self._places.log)
        hearing = asyncio.create_task(self._hear(program), name="hears the driver")
        stopping = asyncio.create_task(self._stop.wait(), name="waits to be told to stop")
        ending = asyncio.create_task(program.ended(), name="waits for the end of the driver")
        try:
            await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set() and not ending.done():
                self._change(state.STOPPING)
                await program.stop(within_s=STOP_WITHIN_S)
            code = await ending
            await asyncio.wait({hearing}, timeout=_LAST_WORDS_S)
        finally:
            for task in (hearing, stopping, ending):
                task.cancel()
            await program.stop(within_s=0.0)
        if not self._has_ended and self._reason is None and not self._stop.is_set():
            self._reason = self._death(code)

    async def _hear(self, program: Program) -> None:
        async for line in program.lines():
            with suppress(ValueError):
                self._on_event(json.loads(line))

    def _on_event(self, event: Mapping[str, object]) -> None:
        self._board.on_event(event, self._clock.monotonic_ms())
        match event.get("event"):
            case board.READY:
                self._change(state.RUNNING)
            case board.NOTE:
                self._audience.note(str(event.get("text")))
            case board.FLOW if event.get("state") == state.FAILED:
                self._on_failed_flow(f"the flow {event.get('flow')} failed: {event.get('reason')}")
            case board.FAILED:
                self._reason = str(event.get("reason"))
            case board.ENDED:
                self._has_ended = True

    def _on_failed_flow(self, sentence: str) -> None:
        """Spark tries a flow three times; whoever watches hears of it once."""
        if sentence not in self._failures_told:
            self._failures_told.add(sentence)
            self._audience.note(sentence)

    async def _publish_often(self) -> None:
        while True:
            self._publish()
            await asyncio.sleep(PUBLISH_EVERY_S)

    def _publish(self) -> None:
        """Tell all who look. A disk that is full is no reason to end a run."""
        flows = self._board.views(self._clock.monotonic_ms())
        self._view = replace(self._view, updated_ms=self._clock.wall_ms(), flows=flows)
        with suppress(OSError):
            write_state(self._places.state, self._view)
        self._audience.show(self._view)

    def _change(self, to: str) -> None:
        self._view = replace(self._view, state=to)
        self._publish()

    def _prepare(self) -> None:
        places = self._places
        places.ours.mkdir(parents=True, exist_ok=True)
        if places.log.exists():
            os.replace(places.log, places.earlier_log)
        view = self._view
        known = KnownPipeline(name=view.pipeline, spec=view.spec, storage=view.storage)
        with suppress(OSError):  # a user without a home; `status DIR` works all the same
            remember(state_dir(os.environ), known)

    def _conclude(self) -> None:
        failed = [flow for flow in self._board.views(0) if flow.state == state.FAILED]
        if self._stop.is_set():
            outcome = state.STOPPED
        elif self._reason is not None or failed:
            outcome = state.FAILED
        else:
            outcome = state.DONE
        self._board.end(outcome)
        flows = self._board.views(self._clock.monotonic_ms())
        reason = self._reason if outcome == state.FAILED else None
        failure = failure_sentence(reason, flows) if outcome == state.FAILED or failed else None
        self._view = replace(self._view, state=outcome, ended_ms=self._clock.wall_ms(), failure=failure)
        self._publish()

    def _death(self, code: int) -> str:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        try:
            lines = self._places.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        except OSError:
            lines = []
        return f"the Spark driver {how}" + "".join(f"\n  {line}" for line in lines)


def failure_sentence(reason: str | None, flows: tuple[state.FlowView, ...]) -> str:
    """Why a run failed: the flow that did, what became of the others; or else what stopped all of them."""
    failed = [flow for flow in flows if flow.state == state.FAILED]
    if not failed:
        return reason or "it did not say why"
    first = "; ".join(
        f"the flow {flow.name} failed: {flow.failure or reason or 'it did not say why'}" for flow in failed
    )
    fates = {
        "went on to their end": state.DONE,
        "were not run": state.SKIPPED,
        "were stopped": state.STOPPED,
    }
    others = [
        f"{', '.join(names)} {fate}"
        for fate, wanted in fates.items()
        if (names := [flow.name for flow in flows if flow.state == wanted])
    ]
    return first + (f" ({'; '.join(others)})" if others else "")
