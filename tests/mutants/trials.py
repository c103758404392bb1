"""Runs seeds of the simulator one after the other, in a process that imports the sources under test; one line of JSON a seed.

Started by `running` with the sources first on the path.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import tidelog
from tests.mutants.outcome import READY, Outcome
from tidelog.simulation.run import run
from tidelog.simulation.verdict import Trial


def main(sources: str, first: str, last: str, seconds: str) -> None:
    """Run the seeds from `first` to `last`."""
    if Path(sources).resolve() not in Path(tidelog.__file__).resolve().parents:
        sys.exit(f"the sources under test are {tidelog.__file__}, not those in {sources}")
    warnings.simplefilter("ignore")  # A killed process runs no `finally`, and Python says so.
    _say(READY)
    for seed in range(int(first), int(last) + 1):
        verdict = run(Trial(seed=seed, seconds=int(seconds)))
        broken = verdict.violation
        outcome = Outcome(
            seed=seed,
            checker="" if broken is None else broken.checker,
            sentence="" if broken is None else broken.sentence,
            acknowledged=verdict.acknowledged,
        )
        _say(json.dumps(outcome.to_json()))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
