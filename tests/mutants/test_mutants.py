from __future__ import annotations

import difflib
import os
import subprocess
from pathlib import Path

import pytest

from tests.mutants.outcome import Outcome
from tests.mutants.patches import (
    NOT_PRODUCT,
    PRODUCT,
    Mutant,
    PatchDoesNotApply,
    all_mutants,
    apply,
    copy_sources,
    keep_seed,
    read,
)
from tests.mutants.suite import Fate, Suite

MUTANTS = all_mutants()
COUNT_MIN = 30


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sources")
    copy_sources(target)
    return target


def test_there_are_enough_bugs() -> None:
    assert len(MUTANTS) >= COUNT_MIN


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_is_in_the_product_and_its_patch_applies_and_compiles(
    mutant: Mutant, sources: Path, tmp_path: Path
) -> None:
    files = mutant.files()
    assert files
    assert all(file.startswith(PRODUCT) and not file.startswith(NOT_PRODUCT) for file in files)
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((sources / file).read_text())
    apply(mutant, tmp_path)
    for file in files:
        changed = (tmp_path / file).read_text()
        assert changed != (sources / file).read_text()
        compile(changed, file, "exec")


def test_every_title_is_one_sentence_of_its_own() -> None:
    titles = [mutant.title for mutant in MUTANTS]
    assert len(set(titles)) == len(titles)
    assert [title for title in titles if not title.endswith(".") or ". " in title] == []


PATCH = """title: A value is another.
expected: I1

--- a/src/tidelog/one.py
+++ b/src/tidelog/one.py
@@ -1,2 +1,2 @@
 first = 1
-second = 2
+second = 3
"""


def one_patch(directory: Path, text: str = PATCH) -> Mutant:
    path = directory / "another-value.patch"
    path.write_text(text)
    return read(path)


def sources_with(directory: Path, content: str) -> Path:
    file = directory / "src/tidelog/one.py"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    return file


def test_a_patch_that_no_longer_applies_names_file_and_hunk(tmp_path: Path) -> None:
    sources_with(tmp_path, "first = 1\nsecond = 20\n")
    with pytest.raises(PatchDoesNotApply, match=r"another-value.patch: patch failed: src/tidelog/one.py:1"):
        apply(one_patch(tmp_path), tmp_path)


def test_a_patch_applies_also_inside_another_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, env=os.environ)
    target = tmp_path / "inner"
    file = sources_with(target, "first = 1\nsecond = 2\n")
    apply(one_patch(tmp_path), target)
    assert file.read_text() == "first = 1\nsecond = 3\n"


def test_a_header_with_an_unknown_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"another-value\.patch"):
        one_patch(tmp_path, PATCH.replace("expected:", "expects:"))


def test_the_seed_that_found_a_bug_is_kept_in_its_patch(tmp_path: Path) -> None:
    mutant = one_patch(tmp_path)
    keep_seed(mutant, 17)
    keep_seed(mutant, 7)
    kept = read(mutant.path)
    assert (kept.seed, kept.title, kept.files()) == (7, mutant.title, mutant.files())
    assert kept.path.read_text().replace("seed: 7\n", "") == PATCH


def outcome(checker: str, *, acknowledged: int) -> Outcome:
    return Outcome(seed=1, checker=checker, sentence="", acknowledged=acknowledged)


def test_sources_that_never_served_are_caught_by_nobody() -> None:
    assert outcome("I1 what is acknowledged stays", acknowledged=5).is_judged
    assert not outcome("I12 everything heals", acknowledged=0).is_judged
    assert not outcome("a task died", acknowledged=5).is_judged
    assert not outcome("", acknowledged=5).is_judged


def look_for(mutant: Mutant, *, seeds: int = 1) -> Fate:
    return Suite(seeds=seeds, seconds=5, on_seed=lambda *_: None).look_for(mutant).fate


def patch_of(directory: Path, file: str, before: str, after: str) -> Mutant:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{file}", f"b/{file}")
    return one_patch(directory, PATCH[: PATCH.index("---")] + "".join(lines))


@pytest.mark.slow
def test_sources_that_cannot_be_imported_are_no_catch(tmp_path: Path, sources: Path) -> None:
    file = "src/tidelog/model/invariant.py"
    before = (sources / file).read_text()
    mutant = patch_of(tmp_path, file, before, before + "import nothing_of_this_name\n")
    assert look_for(mutant) is Fate.NOTHING_RUNS


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_one_bug_is_really_caught() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "follower-watermark-beyond-end")
    result = Suite(seeds=20, seconds=20, on_seed=lambda *_: None).look_for(mutant)
    assert result.fate is Fate.CAUGHT, result
    assert result.checker.startswith("I")


def test_a_bug_whose_patch_no_longer_applies_is_not_caught(tmp_path: Path) -> None:
    assert look_for(one_patch(tmp_path)) is Fate.NOT_APPLIED
