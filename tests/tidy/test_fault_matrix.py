"""docs/fault_matrix.md has every row of the fault matrix, and every test it names exists; each row has one that bears its name."""

from __future__ import annotations

from tests.tidy.measure import ROOT
from tests.tidy.named_tests import exists, references, rows

PAGE = ROOT / "docs" / "fault_matrix.md"
ROW_COUNTS = {"R": 22, "F": 5, "C": 7, "D": 15, "N": 11, "G": 6, "T": 18}
WANTED = [f"{family}{number:02}" for family, count in ROW_COUNTS.items() for number in range(1, count + 1)]


def listed() -> list[list[str]]:
    return [cells for cells in rows(PAGE) if cells[0] != "row"]


def test_no_row_is_missing_and_none_is_there_twice() -> None:
    assert [cells[0] for cells in listed()] == WANTED


def test_every_row_says_what_happens_what_shows_it_and_what_it_fails_without() -> None:
    assert [cells[0] for cells in listed() if len(cells) != 4 or not all(cells)] == []


def test_every_test_that_is_named_exists() -> None:
    assert [named for named in references(PAGE.read_text()) if not exists(named)] == []


def test_every_row_has_a_test_that_bears_its_name() -> None:
    nameless = [
        row
        for row, _, shown_by, *_ in listed()
        if not any(f"test_{row.lower()}_" in named for named in references(shown_by))
    ]
    assert nameless == []
