"""Generated pages say what the code says, and links between pages lead somewhere."""

from __future__ import annotations

import re

from tests.tidy.generated import pages
from tests.tidy.measure import ROOT

LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def test_generated_pages_have_not_drifted() -> None:
    drifted = [
        str(path.relative_to(ROOT)) for path, text in pages().items() if not path.exists() or path.read_text() != text
    ]
    assert not drifted, f"run `make docs`: {drifted}"


def test_links_between_pages_lead_somewhere() -> None:
    pages_written = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    links = [
        (page, target) for page in pages_written for target in LINK.findall(page.read_text()) if "://" not in target
    ]
    broken = [f"{page.relative_to(ROOT)} -> {target}" for page, target in links if not (page.parent / target).exists()]
    assert not broken
