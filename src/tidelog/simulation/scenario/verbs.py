"""The table of all verbs: each says how it is written and what it does, so that errors, help and documentation agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from tidelog.simulation.scenario.arguments import Arguments
from tidelog.simulation.scenario.language import Command, Scenario, ScenarioError
from tidelog.simulation.scenario.stage import CannotDo, Stage

Performance: TypeAlias = Callable[[Stage, Arguments], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """The first word of a command, how it goes on, what it does, and the doing: its result lines."""

    name: str
    usage: str
    summary: str
    perform: Performance


VERBS: Final[dict[str, Verb]] = {}


def verb(usage: str, summary: str) -> Callable[[Performance], Performance]:
    """Enter a function into the table under the first word of its usage."""

    def enter(perform: Performance) -> Performance:
        name = usage.split()[0]
        VERBS[name] = Verb(name=name, usage=usage, summary=summary, perform=perform)
        return perform

    return enter


def perform(stage: Stage, command: Command) -> list[str]:
    """Do what a command says; what it has to say. Raises CannotDo."""
    known = VERBS[command.verb]
    arguments = Arguments(command, known.usage)
    results = list(known.perform(stage, arguments))
    arguments.finish()
    return results


def check_verbs(scenario: Scenario) -> None:
    """Refuse a scenario with a verb that does not exist before anything is played. Raises ScenarioError."""
    for command in _commands(scenario):
        if command.verb not in VERBS:
            near = get_close_matches(command.verb, VERBS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(VERBS))}"
            raise ScenarioError(scenario.where, command.line, f"there is no command {command.verb!r}; {meant}")


def _commands(scenario: Scenario) -> Iterator[Command]:
    for step in scenario.steps:
        yield from step.commands


def needs(is_so: bool, message: str) -> None:  # noqa: FBT001  # as `invariant`: a claim reads best as the first argument
    """Raise CannotDo unless something holds."""
    if not is_so:
        raise CannotDo(message)
