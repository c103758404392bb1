"""One broker for the attacks of a session; whoever needs other limits starts its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.victim import Victim


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    broker = Victim(
        tmp_path_factory.mktemp("victim") / "data", "log.retention.ms=-1", "tidelog.topic.partitions.max=20"
    )
    broker.create("honest")
    with broker.process:
        yield broker
    assert broker.process.process.returncode == 0, f"no clean stop after all this:\n{broker.process.output}"
