"""The pages that are written from the code: `make docs` writes them, a test fails when they have drifted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.tidy.measure import ROOT
from tidelog.config.documentation import configuration_markdown
from tidelog.wire.api import API_TABLE
from tidelog.wire.documentation import protocol_support_markdown


def pages() -> Mapping[Path, str]:
    """What each generated page should say."""
    docs = ROOT / "docs"
    return {
        docs / "configuration.md": configuration_markdown(),
        docs / "protocol_support.md": protocol_support_markdown(API_TABLE),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
