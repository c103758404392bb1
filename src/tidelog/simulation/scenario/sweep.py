"""Crashes a broker at every point of a stretch: the scenario is played anew for each, up to the mark as written and then into the crash.

`mark NAME` begins the stretch. The step that begins with `sweep` ends it, and is the last: what else it commands is done after every
crash, and its results and its table must come out every time. Inside the stretch nothing is compared, since somebody is dead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from tidelog.simulation.checkers import InvariantBroken
from tidelog.simulation.disk_faults import Operation
from tidelog.simulation.failures import SimulationFailed
from tidelog.simulation.scenario.arguments import Arguments
from tidelog.simulation.scenario.language import Scenario, ScenarioError, Step
from tidelog.simulation.scenario.stage import CannotDo, Stage
from tidelog.simulation.scenario.steps import Played, compare, perform_all, play_step
from tidelog.simulation.scenario.verbs import verb

SWEEP: Final = "sweep"
_USAGE: Final = "sweep kill|power-cut of BROKER after every operation|message since NAME"
_PROBLEMS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Who is crashed how, and after which points since which mark."""

    how: str
    broker: str
    point: str
    mark: str


@verb("mark NAME", "Begin the stretch of a later `sweep`; best in a step of its own, without expectations.")
def _mark(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = arguments.word("a name")
    arguments.finish()
    stage.marks[name] = {
        (broker, point): _count(stage, broker, point) for broker in stage.names for point in ("operation", "message")
    }
    for on_mark in stage.on_mark:
        on_mark(name)
    return ()


@verb(
    _USAGE,
    "Crash a broker after each change it made to its disk, or each message it sent or got, since `mark NAME`: the scenario is played anew "
    "for each. What the step commands next is done after every crash, and its results and table must come out every time. Nothing is "
    "compared between mark and sweep. The last step of a scenario.",
)
def _sweep(stage: Stage, arguments: Arguments) -> Sequence[str]:
    del stage
    raise arguments.wrong("sweep is the first command of the last step")


def check_sweep(scenario: Scenario) -> None:
    """Refuse a sweep that is not the last step's. Raises ScenarioError."""
    for step in scenario.steps[:-1]:
        for command in step.commands:
            if command.verb == SWEEP:
                raise ScenarioError(scenario.where, command.line, "sweep is the first command of the last step")


def is_sweep(step: Step) -> bool:
    """Whether the step crashes somebody everywhere."""
    return step.commands[0].verb == SWEEP


def crash_points(stage: Stage, scenario: Scenario, step: Step) -> tuple[Crash, int]:
    """What is to be crashed, and at how many points."""
    command = step.commands[0]
    try:
        crash = _crash(Arguments(command, _USAGE))
        stage.broker(crash.broker)
        if crash.mark not in stage.marks:
            raise CannotDo(f"there is no mark {crash.mark}")
    except CannotDo as error:
        raise ScenarioError(scenario.where, command.line, str(error)) from None
    now = _count(stage, crash.broker, crash.point)
    return crash, now - stage.marks[crash.mark][crash.broker, crash.point]


def sweep(scenario: Scenario, seed: int, crash: Crash, count: int) -> Played:
    """Play the scenario once for every point; what went wrong at the first few of them."""
    step = scenario.steps[-1]
    problems: list[str] = []
    last: Played | None = None
    with warnings.catch_warnings():
        # Whoever dies in the middle of a callback leaves coroutines that nobody will await.
        warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
        for number in range(1, count + 1):
            last = _play_into(scenario, seed, crash, number)
            problems += [f"{problem} (crash {number} of {count})" for problem in last.problems]
            if len(problems) >= _PROBLEMS_MAX:
                break
    if last is None:
        problems.append(f"{scenario.where}:{step.line}: there is no {crash.point} since {crash.mark}")
    return Played(
        step=step,
        now_ms=0.0 if last is None else last.now_ms,
        results=() if last is None else last.results,
        table=None if last is None else last.table,
        events=(),
        problems=tuple(problems),
        are_events_stale=bool(step.events),
        remark=f"{crash.broker} was crashed at {count} points",
    )


class _Over(Exception):
    """Leaves a stage without asking its brokers to stop: they were looked at already."""


def _play_into(scenario: Scenario, seed: int, crash: Crash, number: int) -> Played:
    """One crash, and what came of it."""
    step = scenario.steps[-1]
    results: list[str] = []
    ended: list[Played] = []
    with suppress(_Over), ExitStack() as exits:
        stage = Stage(seed, exits)
        problems = _until_crashed(stage, scenario, crash, number)
        try:
            problems = problems or perform_all(stage, scenario, step.commands[1:], results)
            problems = problems or [f"{scenario.where}:{step.line}: {each}" for each in compare(stage, step, results)]
            stage.cluster.look()
        except (InvariantBroken, SimulationFailed) as error:
            problems.append(f"{scenario.where}:{step.line}: {error}")
        ended.append(
            Played(
                step=step,
                now_ms=stage.now_ms,
                results=tuple(results),
                table=stage.table(),
                events=(),
                problems=tuple(problems),
                are_events_stale=False,
            )
        )
        raise _Over
    return ended[0]


def _until_crashed(stage: Stage, scenario: Scenario, crash: Crash, number: int) -> list[str]:
    """Play all but the last step; from the mark on a crash is due, and who is dead cannot be commanded."""
    armed: list[Callable[[], bool]] = []
    stage.on_mark.append(lambda name: armed.append(_arm(stage, crash, number)) if name == crash.mark else None)
    for step in scenario.steps[:-1]:
        if armed:
            _try(stage, scenario, step)
        else:
            play_step(stage, scenario, step)
    if not any(has_crashed() for has_crashed in armed):
        return [f"{scenario.where}:{scenario.steps[-1].line}: the broker was not crashed"]
    return []


def _try(stage: Stage, scenario: Scenario, step: Step) -> None:
    for command in step.commands:
        perform_all(stage, scenario, [command], [])
    stage.settle()


def _arm(stage: Stage, crash: Crash, number: int) -> Callable[[], bool]:
    broker = stage.broker(crash.broker)
    life = broker.node.incarnation

    def has_crashed() -> bool:
        return broker.node.incarnation != life or not broker.node.is_running

    def strike() -> None:
        if not has_crashed():
            if crash.how == "kill":
                broker.kill()
            else:
                broker.power_cut()

    def on_operation(operation: Operation) -> None:
        if operation.number == due:
            strike()

    due = stage.marks[crash.mark][crash.broker, "operation"] + number
    if crash.point == "operation":
        broker.node.disk.on_operation(on_operation)
    else:
        stage.cluster.world.fabric.counts.after(broker.node.name, number, strike)
    return has_crashed


def _count(stage: Stage, broker: str, point: str) -> int:
    node = stage.broker(broker).node
    return node.disk.operation_count if point == "operation" else stage.cluster.world.fabric.counts.of(node.name)


def _crash(arguments: Arguments) -> Crash:
    how = arguments.one_of("how", ("kill", "power-cut"))
    arguments.literal("of")
    broker = arguments.word("a broker")
    arguments.literal("after", "every")
    point = arguments.one_of("operation or message", ("operation", "message"))
    arguments.literal("since")
    mark = arguments.word("a mark")
    arguments.finish()
    return Crash(how=how, broker=broker, point=point, mark=mark)
