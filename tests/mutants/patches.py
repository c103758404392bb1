"""The bugs themselves: one unified diff a file, with a few lines before it that say what the bug is.

title: what is wrong, in one sentence
like: where the same was seen in the field (may be missing)
expected: which checker ought to speak
seed: the first seed under which it did (may be missing)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PATCHES: Final = Path(__file__).resolve().parent
PRODUCT: Final = "src/tidelog/"
NOT_PRODUCT: Final = "src/tidelog/simulation/"


class PatchDoesNotApply(Exception):
    """The code a mutant changes is not there any more: the patch has to be made anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug."""

    name: str
    path: Path
    title: str
    expected: str
    like: str = ""
    seed: int | None = None

    def files(self) -> list[str]:
        """The files it changes, from the root of the repository."""
        lines = self.path.read_text().splitlines()
        return [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/")]


def all_mutants() -> list[Mutant]:
    """Every bug of the suite, by name."""
    return [read(path) for path in sorted(PATCHES.glob("*.patch"))]


def read(path: Path) -> Mutant:
    """One patch file. Raises ValueError where its header is not as it should be."""
    header = dict(_header(path))
    unknown = header.keys() - {"title", "like", "expected", "seed"}
    if unknown or not header.get("title") or not header.get("expected"):
        raise ValueError(f"{path.name}: the header has title, expected, like and seed, not {sorted(header)}")
    return Mutant(
        name=path.stem,
        path=path,
        title=header["title"],
        expected=header["expected"],
        like=header.get("like", ""),
        seed=int(header["seed"]) if "seed" in header else None,
    )


def keep_seed(mutant: Mutant, seed: int) -> None:
    """Remember the seed by which it was found."""
    header, separator, diff = mutant.path.read_text().partition("\n--- ")
    lines = [line for line in header.splitlines() if line and not line.startswith("seed: ")]
    mutant.path.write_text("\n".join([*lines, f"seed: {seed}", ""]) + separator + diff)


def _header(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        if line.startswith("--- "):
            return
        if line:
            word, _, text = line.partition(": ")
            yield word, text


def copy_sources(target: Path) -> None:
    """Put the sources as they are now under `target`."""
    shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))


def apply(mutant: Mutant, target: Path) -> None:
    """Put the bug into the sources under `target`, as a whole or not at all. Raises PatchDoesNotApply, naming the hunk."""
    # A repository around `target` would have git look for the files there, and pass over them without a word.
    surroundings = os.environ | {"GIT_CEILING_DIRECTORIES": str(target.resolve().parent)}
    command = ["git", "apply", "--whitespace=nowarn", str(mutant.path)]
    result = subprocess.run(command, cwd=target, env=surroundings, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reasons = [line.removeprefix("error: ") for line in result.stderr.splitlines() if line.startswith("error: ")]
        raise PatchDoesNotApply(f"{mutant.path.name}: {'; '.join(reasons) or result.stderr.strip()}")
