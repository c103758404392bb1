"""Writes the events of a scenario anew from what happened. Results and tables are written by hand, and nothing here can touch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.model import invariant
from tidelog.simulation.scenario.language import EVENT, Scenario, Step, parse
from tidelog.simulation.scenario.player import play


class NotAsWritten(Exception):
    """A scenario does not go as its tables and results say: that is a failure of the program or of its author, never rewritten."""


def rewrite_events(text: str, *, where: str) -> str:
    """The same text with the events that happen. Raises NotAsWritten, and ScenarioError as `parse` does."""
    scenario = parse(text, where=where)
    events: dict[int, Sequence[str]] = {}
    for played in play(scenario):
        if played.problems:
            raise NotAsWritten("\n".join(played.problems))
        events[played.step.line] = played.events
    return with_events(text, scenario, events)


def with_events(text: str, scenario: Scenario, events: Mapping[int, Sequence[str]]) -> str:
    """The text with these events, by the line of their step; every other line stays as it is."""
    ends = {step.end_line: step for step in scenario.steps}
    inside = {line for step in scenario.steps for line in range(step.line, step.end_line + 1)}
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not (number in inside and line.startswith(EVENT)):
            lines.append(line)
        if number in ends:
            lines += [f"{EVENT}{event}" for event in events[ends[number].line]]
    written = "\n".join(lines) + "\n"
    invariant(
        _by_hand(parse(written, where=scenario.where).steps) == _by_hand(scenario.steps), "only events were rewritten"
    )
    return written


def _by_hand(steps: Sequence[Step]) -> list[object]:
    return [
        (step.intro, step.notice, [each.text for each in step.commands], step.results, step.table) for step in steps
    ]
