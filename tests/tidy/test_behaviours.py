"""docs/behaviours.md names a test or scenario for each behaviour, and each of them exists."""

from __future__ import annotations

from tests.tidy.measure import ROOT
from tests.tidy.named_tests import exists, references, rows

PAGE = ROOT / "docs" / "behaviours.md"
BEHAVIOURS = 26


def test_every_behaviour_is_listed_with_what_shows_it() -> None:
    _, *listed = rows(PAGE)
    assert len(listed) == BEHAVIOURS
    assert [cells[0] for cells in listed if not references(cells[1])] == []


def test_everything_that_shows_a_behaviour_exists() -> None:
    assert [named for named in references(PAGE.read_text()) if not exists(named)] == []
