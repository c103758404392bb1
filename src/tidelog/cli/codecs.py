"""The first codec, made without what a broker has no use for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare

_TEST_LIBRARY: Final = "hypothesis"


def prepare_first_codec() -> None:
    """Import kio and make the codec that every connection begins with; the others are made on first use in a few milliseconds."""
    with _hidden(_TEST_LIBRARY):
        prepare([ApiKey.API_VERSIONS])


@contextmanager
def _hidden(library: str) -> Iterator[None]:
    """Let a library seem not to be installed: kio imports this one if it can, to tell it of its types, and that doubles its own cost."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # the way to say that an import fails
    try:
        yield
    finally:
        del sys.modules[library]
