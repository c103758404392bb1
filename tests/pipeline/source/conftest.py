"""The source without Spark: surveys, positions and tasks against real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TypeAlias

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.source.rig import Rig

MakeRig: TypeAlias = Callable[..., Rig]


@pytest.fixture
def rig(cluster: TidelogCluster, topic: str) -> Iterator[MakeRig]:
    """Makes the parts of a query over the test's topic; options as keyword arguments, `__` for `.`."""
    with ExitStack() as stack:

        def make(*, streams: bool = False, **options: str) -> Rig:
            return stack.enter_context(closing(Rig(cluster.bootstrap, topic, streams=streams, options=options)))

        yield make
