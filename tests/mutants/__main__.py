"""Does the simulator find bugs? `python -m tests.mutants` puts each bug of the suite into the product and waits for a checker to speak.

The table says how many seeds that took, counted from seed 1. Exit status 1 if a bug survives, or its patch no longer applies.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from typing import Final, TextIO

from tests.mutants.outcome import Outcome
from tests.mutants.patches import Mutant, all_mutants, keep_seed
from tests.mutants.suite import Fate, Result, Suite
from tidelog.cli.output import OutputFormat, Row, write_rows

SEEDS: Final = 200
SECONDS: Final = 20  # simulated, of load and faults
_ERASE: Final = "\r\x1b[K"
_COLUMNS: Final = ("bug", "fate", "seeds", "checker", "seconds")


class Watching:
    """A line on the terminal that says what is being tried."""

    def __init__(self, count: int, out: TextIO | None) -> None:
        self._count = count
        self._out = out
        self._lock = threading.Lock()
        self._seeds = 0
        self.done = 0

    def on_seed(self, mutant: Mutant, outcome: Outcome) -> None:
        """One more seed was tried."""
        with self._lock:
            self._seeds += 1
            if self._out is not None:
                line = f"{self.done}/{self._count} bugs, {self._seeds} seeds: {mutant.name}, seed {outcome.seed}"
                self._out.write(_ERASE + line[:119])
                self._out.flush()

    def on_result(self, result: Result) -> None:
        """One bug is dealt with; whatever is wrong is said at once."""
        with self._lock:
            self.done += 1
            if self._out is not None:
                self._out.write(_ERASE)
        if not result.is_caught:
            sys.stderr.write(f"{result.mutant.name}: {result.fate.value}. {result.mutant.title}\n{_advice(result)}\n")


def _advice(result: Result) -> str:
    if result.fate is Fate.SURVIVED:
        return f"  expected: {result.mutant.expected}. A bug that survives is a missing fault or checker: add it."
    return f"  {result.sentence}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    options = _parser().parse_args(arguments)
    known = {mutant.name: mutant for mutant in all_mutants()}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        sys.stderr.write(f"no such bug: {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    mutants = [known[name] for name in options.names] or list(known.values())
    watching = Watching(len(mutants), sys.stderr if sys.stderr.isatty() else None)
    suite = Suite(seeds=options.seeds, seconds=options.seconds, on_seed=watching.on_seed, is_counted=options.count)
    results: list[Result] = []
    for result in suite.run(mutants, jobs=options.jobs):
        watching.on_result(result)
        results.append(result)
        if options.keep and result.is_caught:
            keep_seed(result.mutant, result.seeds)
    write_rows(sys.stdout, OutputFormat(options.format), _COLUMNS, [_row(result) for result in results])
    return 0 if all(result.is_caught for result in results) else 1


def _row(result: Result) -> Row:
    return {
        "bug": result.mutant.name,
        "fate": result.fate.value,
        "seeds": result.seeds,
        "checker": result.checker or "-",
        "seconds": round(result.seconds, 1),
        "title": result.mutant.title,
        "like": result.mutant.like,
        "expected": result.mutant.expected,
        "sentence": result.sentence,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these bugs")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="try so many seeds before a bug counts as survived")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="simulated seconds of load and faults per seed")
    parser.add_argument("--jobs", type=int, default=2, help="bugs that are looked for at a time")
    parser.add_argument("--format", choices=[one.value for one in OutputFormat], default=OutputFormat.TABLE.value)
    parser.add_argument(
        "--count", action="store_true", help="count seeds from 1, not from the one that is known to work"
    )
    parser.add_argument("--keep", action="store_true", help="remember in each patch the seed that found it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
