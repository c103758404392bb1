"""Compiles the kernels before the first test, whose time it would otherwise be charged to."""

from __future__ import annotations

import pytest

from tests.pipeline.codec.arrow import arrow_batch
from tests.pipeline.codec.rows import decode, encoded
from tests.records.batches import batch_of


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    rows = [(0, b"k", b"v", (("h", b"x"),)), (0, None, None, ())]
    assert len(decode(batch_of(rows))) == 2
    assert len(encoded(arrow_batch(rows), partition_count=2)) == 2
