"""`tidelog demo exactly-once`: the proof before somebody's eyes, and its table."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from tidelog.cli.demo_running import place_for, run_until_signal
from tidelog.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidelog.cli.output import OutputFormat, Row, is_coloured, paint, write_rows
from tidelog.pipeline.demo.exactly_once import Proof, Telling, prove
from tidelog.runtime.real import RealClock, real_runtime

if TYPE_CHECKING:
    from tidelog.pipeline.demo.running import ShopPlan

_ERASE: Final = "\r\x1b[K"


class TellingOnStderr(Telling):
    """A line for everything that happens, and on a terminal one below them that changes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._clock = RealClock()
        self._started_ms = self._clock.monotonic_ms()

    def news(self, text: str) -> None:
        """A line that stays."""
        erase = _ERASE if self._out.isatty() else ""
        self._out.write(f"{erase}{self._seconds():6.1f} s  {text}\n")
        self._out.flush()

    def status(self, text: str) -> None:
        """A line that the next one takes the place of."""
        if self._out.isatty():
            self._out.write(f"{_ERASE}{self._seconds():6.1f} s  {text}")
            self._out.flush()

    def _seconds(self) -> float:
        return (self._clock.monotonic_ms() - self._started_ms) / 1000


def run_proof(options: argparse.Namespace, plan: ShopPlan) -> int:
    """Run the proof, print what came of it; 1 if anything was lost or doubled. Raises CommandFailed."""
    telling = Telling() if options.quiet else TellingOnStderr(sys.stderr)
    runtime = real_runtime()
    with place_for(options.data) as place:
        plan = replace(plan, data=place.path)
        telling.news(
            f"seed {plan.seed}, {options.seconds} s of orders and kills, commit mode {plan.commit_mode}, Spark {plan.master}"
        )
        try:
            proof = run_until_signal(prove(plan, runtime, telling, seconds=options.seconds))
        finally:
            runtime.disk.close()
        if proof is None:
            telling.news("stopped before the end; nothing was counted")
            return EXIT_INTERRUPTED
        words = ["--seconds", str(options.seconds), "--rate", str(options.rate), "--master", plan.master]
        _print(proof, OutputFormat(options.format), words)
        if proof.verdict.is_exact:
            return EXIT_OK
        place.is_kept = True
        sys.stderr.write(f"tidelog: everything is kept in {place.path}\n")
        return EXIT_FAILED


def proof_rows(proof: Proof) -> list[Row]:
    """The table: what was counted, and how much of it."""
    verdict = proof.verdict
    counted: dict[str, int | str] = {
        "records in": verdict.records_in,
        "records out": verdict.records_out,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "misjudged": verdict.misjudged,
        "windows of revenue": verdict.windows,
        "windows missing": verdict.windows_missing,
        "windows duplicated": verdict.windows_duplicated,
        "windows wrong": verdict.windows_wrong,
        "open transactions": verdict.open_transactions,
        **{f"kills: {victim}": count for victim, count in proof.kills.items()},
        "drivers started": proof.drivers_started,
        "seconds of orders": f"{proof.load_s:.1f}",
        "seconds in all": f"{proof.total_s:.1f}",
    }
    return [
        {"what": what, "count": f"{count:,}" if isinstance(count, int) else count} for what, count in counted.items()
    ]


def sentence(proof: Proof, *words: str) -> str:
    """What it comes to; `words` are those of the command line that the seed and the mode do not say."""
    verdict = proof.verdict
    if verdict.is_exact:
        return f"every order is reflected exactly once, after {sum(proof.kills.values())} kills (seed {proof.seed})"
    faults = {
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "misjudged": verdict.misjudged,
        "windows missing": verdict.windows_missing,
        "windows duplicated": verdict.windows_duplicated,
        "windows wrong": verdict.windows_wrong,
        "transactions left open": verdict.open_transactions,
    }
    found = ", ".join(f"{count:,} {what}" for what, count in faults.items() if count)
    again = " ".join(
        ["tidelog demo exactly-once", "--seed", str(proof.seed), "--mode", proof.commit_mode, *map(shlex.quote, words)]
    )
    return f"NOT exactly once: {found}; the same kills again: {again}"


def _print(proof: Proof, output_format: OutputFormat, words: Sequence[str]) -> None:
    out = sys.stdout
    if output_format is OutputFormat.JSON:
        out.write(json.dumps(proof.to_json(), indent=2) + "\n")
    else:
        if sys.stderr.isatty():
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
        write_rows(out, output_format, ("what", "count"), proof_rows(proof))
        style = "green" if proof.verdict.is_exact else "red"
        out.write(paint(sentence(proof, *words), style, wanted=is_coloured(out)) + "\n")
    out.flush()
