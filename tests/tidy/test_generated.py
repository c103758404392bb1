"""Generated pages say what the code says, and links between pages lead somewhere."""

from __future__ import annotations

import re

from tests.tidy.generated import pages
from tests.tidy.measure import ROOT


def test_generated_pages_have_not_drifted() -> None:
    drifted = [
        str(path.relative_to(ROOT)) for path, text in pages().items() if not path.exists() or path.read_text() != text
    ]
    assert not drifted, f"run `make docs`: {drifted}"


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not broken
