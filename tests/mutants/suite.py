"""Puts bugs into copies of the sources, one each, and lets the simulator look for them."""

from __future__ import annotations

import enum
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.outcome import Outcome
from tests.mutants.patches import ROOT, Mutant, PatchDoesNotApply, apply, copy_sources
from tests.mutants.running import NothingRuns, outcomes


class Fate(enum.Enum):
    """What became of a bug."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    NOT_APPLIED = "does not apply"
    NOTHING_RUNS = "nothing runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the table. `seeds` is how many it took, counted from the first seed on, or how many were in vain."""

    mutant: Mutant
    fate: Fate
    seeds: int = 0
    checker: str = ""
    sentence: str = ""
    seconds: float = 0.0

    @property
    def is_caught(self) -> bool:
        """Whether all is well."""
        return self.fate is Fate.CAUGHT


class Suite:
    """One run of the suite. `on_seed` hears of every seed that was tried, from any thread.

    The seed that found a bug before is asked first, unless seeds are to be `is_counted`: then all of them are, from the first on.
    """

    def __init__(
        self, *, seeds: int, seconds: int, on_seed: Callable[[Mutant, Outcome], None], is_counted: bool = False
    ) -> None:
        self._seeds = seeds
        self._seconds = seconds
        self._on_seed = on_seed
        self._is_counted = is_counted
        self._clean: dict[int, bool] = {}
        self._looking: dict[int, threading.Lock] = {}
        self._table = threading.Lock()

    def run(self, mutants: Sequence[Mutant], *, jobs: int) -> Iterator[Result]:
        """The results in the order of the mutants, as they come."""
        with ThreadPoolExecutor(jobs) as workers:
            yield from workers.map(self.look_for, mutants)

    def look_for(self, mutant: Mutant) -> Result:
        """Try seed after seed until a checker finds the bug."""
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tidelog-mutant-") as directory:
            target = Path(directory)
            try:
                copy_sources(target)
                apply(mutant, target)
                found = self._find(mutant, target)
            except PatchDoesNotApply as reason:
                return Result(mutant=mutant, fate=Fate.NOT_APPLIED, sentence=str(reason))
            except NothingRuns as reason:
                return Result(mutant=mutant, fate=Fate.NOTHING_RUNS, sentence=str(reason))
        seconds = time.monotonic() - started
        if found is None:
            return Result(mutant=mutant, fate=Fate.SURVIVED, seeds=self._seeds, seconds=seconds)
        return Result(
            mutant=mutant,
            fate=Fate.CAUGHT,
            seeds=found.seed,
            checker=found.checker,
            sentence=found.sentence,
            seconds=seconds,
        )

    def _find(self, mutant: Mutant, target: Path) -> Outcome | None:
        """The first seed by which a checker tells the bug from the sources as they are."""
        for seeds in self._order(mutant):
            for outcome in outcomes(target / "src", seeds, seconds=self._seconds):
                self._on_seed(mutant, outcome)
                if outcome.is_judged and self._is_clean(outcome.seed):
                    return outcome
        return None

    def _order(self, mutant: Mutant) -> Iterable[range]:
        kept = mutant.seed
        if kept is not None and not self._is_counted:
            yield range(kept, kept + 1)
        yield range(1, self._seeds + 1)

    def _is_clean(self, seed: int) -> bool:
        """Whether nothing is broken under this seed without the bug; asked once per seed."""
        with self._table:
            looking = self._looking.setdefault(seed, threading.Lock())
        with looking:
            if seed not in self._clean:
                [outcome] = outcomes(ROOT / "src", range(seed, seed + 1), seconds=self._seconds)
                self._clean[seed] = not outcome.is_broken
            return self._clean[seed]
