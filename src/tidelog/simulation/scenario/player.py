"""Plays a scenario step by step.

Tables and results must come out under every seed. Events are compared under the scenario's own seed only: another one may well order
things differently, or need another round.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from tidelog.simulation.checkers import InvariantBroken
from tidelog.simulation.failures import SimulationFailed
from tidelog.simulation.scenario.language import Scenario
from tidelog.simulation.scenario.stage import Stage
from tidelog.simulation.scenario.steps import OWN_SEED, Played, play_step
from tidelog.simulation.scenario.sweep import check_sweep, crash_points, is_sweep, sweep
from tidelog.simulation.scenario.verbs import check_verbs


class EndedBadly(Exception):
    """All went as written, and then the cluster could not be stopped, or a checker found something on its last look."""


class _Interrupted(Exception):
    """Leaves a stage on which something went wrong: its brokers are not asked to stop."""


def play(scenario: Scenario, *, seed: int = OWN_SEED) -> Iterator[Played]:
    """Play until the end, or until a step has problems. Raises ScenarioError for a command that makes no sense, and EndedBadly."""
    check_verbs(scenario)
    check_sweep(scenario)
    return _play(scenario, seed)


def _play(scenario: Scenario, seed: int) -> Iterator[Played]:
    try:
        with ExitStack() as exits:
            stage = Stage(seed, exits)
            for step in scenario.steps:
                if is_sweep(step):
                    crash, count = crash_points(stage, scenario, step)
                    exits.close()
                    yield sweep(scenario, seed, crash, count)
                    return
                played = play_step(stage, scenario, step)
                yield played
                if played.problems:
                    raise _Interrupted
    except _Interrupted:
        return
    except (InvariantBroken, SimulationFailed) as error:
        raise EndedBadly(f"{scenario.where}: after the last step: {error}") from error
