"""Every bug that was found is kept as a test, and the page that lists them names tests that exist."""

from __future__ import annotations

from tests.tidy.measure import ROOT
from tests.tidy.named_tests import exists, references, rows

PAGE = ROOT / "docs" / "findings.md"


def test_every_finding_is_kept_as_something() -> None:
    findings = [cells for cells in rows(PAGE) if cells[0] != "what happened"]
    assert findings
    assert [cells[0] for cells in findings if len(cells) != 3 or "`tests/" not in cells[2]] == []


def test_everything_that_keeps_a_finding_exists() -> None:
    assert [named for named in references(PAGE.read_text()) if not exists(named) and not (ROOT / named).is_dir()] == []
