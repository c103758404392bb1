"""Real servers: one for promises, three for faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.zookeeper_ensemble import ZooKeeperEnsemble


@pytest.fixture(scope="session")
def three_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"), servers=3) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(three_servers: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """All three serve, before and after."""
    three_servers.heal()
    yield three_servers
    three_servers.heal()
