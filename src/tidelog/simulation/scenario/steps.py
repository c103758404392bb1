"""One step of a scenario: its commands are performed, and what came of them is compared with what is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.simulation.checkers import InvariantBroken
from tidelog.simulation.failures import SimulationFailed
from tidelog.simulation.scenario.arguments import WrongCommand
from tidelog.simulation.scenario.events import by_broker, events_of
from tidelog.simulation.scenario.language import Command, Scenario, ScenarioError, Step
from tidelog.simulation.scenario.stage import CannotDo, Stage
from tidelog.simulation.scenario.tables import Table, differences
from tidelog.simulation.scenario.verbs import perform

OWN_SEED: Final = 1
TABLE_WITHIN_MS: Final = 20_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One step as it went. `problems` says what is not as written, but for the events."""

    step: Step
    now_ms: float
    results: tuple[str, ...]
    table: Table | None
    events: tuple[str, ...]
    problems: tuple[str, ...]
    are_events_stale: bool
    remark: str | None = None  # what is told, and not compared


def play_step(stage: Stage, scenario: Scenario, step: Step) -> Played:
    """Perform a step and compare. Raises ScenarioError for a command that makes no sense."""
    seen = _line_count(stage)
    results: list[str] = []
    try:
        problems = perform_all(stage, scenario, step.commands, results)
        if not problems:
            problems = [f"{scenario.where}:{step.line}: {problem}" for problem in compare(stage, step, results)]
    except (InvariantBroken, SimulationFailed) as error:
        problems = [f"{scenario.where}:{step.line}: {error}"]
    now_ms, table = (stage.now_ms, stage.table()) if stage.has_cluster else (0.0, None)
    if not problems:
        stage.settle()
    events = _events(stage, seen)
    return Played(
        step=step,
        now_ms=now_ms,
        results=tuple(results),
        table=table,
        events=tuple(events),
        problems=tuple(problems),
        are_events_stale=stage.seed == OWN_SEED and by_broker(events) != by_broker(step.events),
    )


def perform_all(stage: Stage, scenario: Scenario, commands: Sequence[Command], results: list[str]) -> list[str]:
    """Perform commands until one cannot be done; what they said is put into `results`, and why they ended is returned."""
    for command in commands:
        try:
            results += perform(stage, command)
        except WrongCommand as error:
            raise ScenarioError(scenario.where, command.line, str(error)) from None
        except CannotDo as error:
            return [f"{scenario.where}:{command.line}: {command.text}: {error}"]
    return []


def compare(stage: Stage, step: Step, results: Sequence[str]) -> list[str]:
    """What is not as written: what commands said, and the table, if it does not come to be so in reasonable time."""
    problems = []
    if list(step.results) != list(results):
        said, written = ("; ".join(each) or "nothing" for each in (results, step.results))
        problems.append(f"the commands said {said}; written is {written}")
    if step.table is not None and not _becomes(stage, step.table):
        actual = stage.table()
        told = ["there is no topic to show"] if actual is None else differences(step.table, actual)
        problems.append("; ".join(told))
    return problems


def _becomes(stage: Stage, expected: Table) -> bool:
    def is_so() -> bool:
        actual = stage.table()
        return actual is not None and not differences(expected, actual)

    try:
        stage.until(is_so, "the table", within_ms=TABLE_WITHIN_MS)
    except CannotDo:
        return False
    return True


def _line_count(stage: Stage) -> int:
    return len(stage.cluster.world.trace.lines) if stage.has_cluster else 0


def _events(stage: Stage, seen: int) -> list[str]:
    if not stage.has_cluster:
        return []
    return events_of(list(stage.cluster.world.trace.lines)[max(seen, stage.first_line) :], stage.names)
