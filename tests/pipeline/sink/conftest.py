"""A broker that allows two phases, for the tests of mode 2pc that need no more than one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogProcess
from tests.pipeline.hand import Hand
from tests.pipeline.sink.two_phase_rig import Query


@pytest.fixture(scope="session")
def two_phase_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    """A hand in a cluster of one broker, in which transactions that time out do so soon."""
    settings = (
        "transaction.two.phase.commit.enable=true",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
        "auto.create.topics.enable=false",
    )
    options = [word for setting in settings for word in ("-X", setting)]
    with TidelogProcess(tmp_path_factory.mktemp("two-phase") / "data", *options) as process:
        opened = Hand(process.bootstrap)
        yield opened
        opened.close()


@pytest.fixture
def query(two_phase_hand: Hand, topic: str, tmp_path: Path) -> Query:
    """A query in mode 2pc whose topic is there."""
    return Query(two_phase_hand, two_phase_hand.create(topic, 2), tmp_path / "checkpoint")
