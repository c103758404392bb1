"""Running seeds on some sources, in a process of their own."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from tests.mutants.outcome import NOBODY, READY, Outcome, decode
from tests.mutants.patches import ROOT

SEED_S_MAX: Final = 180.0  # on the wall; a seed that takes longer hangs
_WORDS_MAX: Final = 500


class NothingRuns(Exception):
    """The sources cannot even be tried."""


def outcomes(sources: Path, seeds: range, *, seconds: int) -> Iterator[Outcome]:
    """What each seed comes to, one after the other, in one process as long as none of them hangs or dies. Raises NothingRuns."""
    seed = seeds.start
    while seed < seeds.stop:
        with TemporaryFile() as complaints, _process(sources, seed, seeds.stop - 1, seconds, complaints) as process:
            if _line(process) != READY:
                process.kill()
                raise NothingRuns(_last_words(complaints))
            while seed < seeds.stop and (line := _line(process)):
                outcome = decode(line)
                yield outcome
                seed = outcome.seed + 1
            if seed < seeds.stop:
                process.kill()
                yield Outcome(seed=seed, checker=NOBODY, sentence=_last_words(complaints), acknowledged=0)
                seed += 1


def _line(process: subprocess.Popen[bytes]) -> str:
    """What the process says next; nothing if it ends, or takes too long."""
    out = process.stdout
    return out.readline().decode().rstrip() if out is not None and _has_more(out) else ""


def _last_words(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    return complaints.read().decode(errors="replace").strip()[-_WORDS_MAX:] or f"no verdict within {SEED_S_MAX:.0f} s"


def _has_more(out: IO[bytes]) -> bool:
    """Whether there is something to read, be it the end, in good time. One line comes at a time, so none waits in a buffer."""
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ)
        return bool(selector.select(SEED_S_MAX))


@contextmanager
def _process(
    sources: Path, first: int, last: int, seconds: int, complaints: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.mutants.trials", str(sources), str(first), str(last), str(seconds)]
    surroundings = os.environ | {"PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, stderr=complaints, bufsize=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()
