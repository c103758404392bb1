"""What the client's tests share."""

from __future__ import annotations

import pytest

from tidelog.wire.codec import prepare


@pytest.fixture(scope="session", autouse=True)
def codecs() -> None:
    """Make the codecs before the first test that needs them, which would else look slow."""
    prepare()
