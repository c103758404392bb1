"""What the crash tests share: brokers that keep prepared transactions, and one driver that is not killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.conftest import FRESH_SEED_VARIABLE
from tests.pipeline.crash.rig import Driver, Ground
from tests.pipeline.hand import Hand
from tidelog.simulation import SimulatedRandomness

_BROKER_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "tidelog.registry.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers; who kills one starts it again."""
    with TidelogCluster(tmp_path_factory.mktemp("crash-cluster"), _BROKER_SETTINGS) as started:
        yield started


@pytest.fixture(scope="session")
def hand(cluster: TidelogCluster) -> Iterator[Hand]:
    opened = Hand(cluster.bootstrap)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def _driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("crash-driver")) as started:
        yield started


@pytest.fixture
def driver(_driver: Driver) -> Driver:
    """A driver that lives as long as all tests do: where queries go on whose own driver was killed."""
    return _driver.wait_ready()


@pytest.fixture
def ground(hand: Hand, tmp_path: Path) -> Ground:
    return Ground(hand, tmp_path)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> SimulatedRandomness:
    """What a test draws. The head of the run names the seed, and TIDELOG_FRESH_SEED=N draws the same again."""
    return SimulatedRandomness(os.environ[FRESH_SEED_VARIABLE]).stream(request.node.name)
