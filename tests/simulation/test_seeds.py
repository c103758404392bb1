"""Whole runs of seeds, checked by everything: some that never change, and with ORDER=random some that nobody has seen before.

The head of a run names the first of those (1 unless they are drawn); TIDELOG_FRESH_SEED=N runs the same again.
"""

from __future__ import annotations

import os

import pytest

from tests.conftest import FRESH_SEED_VARIABLE
from tests.simulation.clusters import kills
from tests.tiers import rest_proven
from tidelog.simulation import report
from tidelog.simulation.run import run
from tidelog.simulation.verdict import HIGH_WATERMARK, LEADER_EPOCH, Trial

# Seeds that found something once: 32 a log start that goes back when its broker dies before the checkpoint, 34 and 88 batches under way that a
# restarted broker had forgotten. What a seed does changes with the code; the tests named after the findings are what guards them.
FIXED = (1, 4, 32, 34, 88)
FRESH_COUNT = 10  # for more, `tidelog sim soak`
PROVEN = range(1_000, 1_015)
PER_TEST = 5
LOSING = range(1, 6)
FIRST_FRESH = int(os.environ[FRESH_SEED_VARIABLE])

pytestmark = [kills, pytest.mark.timeout(600)]


def must_be_fine(trial: Trial) -> None:
    verdict = run(trial)
    assert verdict.is_ok, f"{report.sentence(verdict)}\nrepeat: {trial.command()}\n{report.last_lines(verdict)}"
    assert verdict.acknowledged > 0
    assert verdict.is_dosed


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(FIXED))
def test_a_known_seed_is_fine(seed: int) -> None:
    must_be_fine(Trial(seed=seed))


@pytest.mark.proof
@pytest.mark.parametrize("first", PROVEN[::PER_TEST])
def test_many_known_seeds_are_fine(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        must_be_fine(Trial(seed=seed))


@pytest.mark.proof
@pytest.mark.parametrize("number", range(0, FRESH_COUNT, PER_TEST))
def test_many_fresh_seeds_are_fine(number: int) -> None:
    for seed in range(FIRST_FRESH + number, FIRST_FRESH + number + PER_TEST):
        must_be_fine(Trial(seed=seed))


@pytest.mark.proof
def test_truncation_by_high_watermark_breaks_within_a_few_seeds_and_leader_epochs_do_not() -> None:
    losing = [seed for seed in LOSING if not run(Trial(seed=seed, truncation=HIGH_WATERMARK)).is_ok]
    assert losing
    for seed in losing:
        must_be_fine(Trial(seed=seed, truncation=LEADER_EPOCH))
