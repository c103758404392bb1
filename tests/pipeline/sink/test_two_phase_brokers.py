"""Brokers die in the middle of a two-phase commit: those who remember its transactions, one by one and all at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand
from tests.pipeline.sink.looking import ask
from tests.pipeline.sink.two_phase_rig import Driver, Query, drive, expected
from tests.tiers import rest_proven
from tidelog.client import Admin
from tidelog.model import BrokerId, ErrorCode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
    "tidelog.registry.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    with TidelogCluster(tmp_path_factory.mktemp("two-phase-brokers"), SETTINGS) as started:
        yield started


@pytest.fixture
def replicated(brokers: TidelogCluster, topic: str, tmp_path: Path) -> Iterator[Query]:
    hand = Hand(brokers.bootstrap)
    yield Query(hand, hand.create(topic, 2), tmp_path / "checkpoint")
    hand.close()


def coordinator_of(query: Query, transactional_id: str) -> BrokerId:
    async def look(admin: Admin) -> BrokerId | ErrorCode:
        return (await admin.transactions.find_coordinators([transactional_id]))[transactional_id]

    found = ask(query.hand.bootstrap, look)
    assert not isinstance(found, ErrorCode), found
    return found


@pytest.mark.parametrize("point", rest_proven(["after decide", "after adopt"]))
@pytest.mark.parametrize("whose", rest_proven(["a task's", "the driver's"]))
def test_the_commit_goes_on_when_a_coordinator_dies(
    brokers: TidelogCluster, replicated: Query, point: str, whose: str
) -> None:
    messages = replicated.write(0, run="a")
    prepared = messages[0].prepared
    assert prepared is not None
    dead = coordinator_of(replicated, replicated.sink_id if whose == "the driver's" else prepared.transactional_id)
    with Driver(replicated, "commit", messages, 0, waits=point) as driver:
        driver.arrived()
        brokers.kill(dead)
        assert driver.go_on().ended() == "done"
    brokers.restart(dead)
    assert replicated.committed_values() == expected(range(1))
    assert replicated.manifests() == []


@pytest.mark.proof
@pytest.mark.parametrize("point", ["before decide", "after decide"])
def test_a_decision_survives_that_all_brokers_and_the_driver_die_at_once(
    brokers: TidelogCluster, replicated: Query, point: str
) -> None:
    with Driver(replicated, "commit", replicated.write(0, run="a"), 0, waits=point) as driver:
        driver.arrived()
        brokers.kill_all()
    brokers.restart(1, 2, 3)
    messages = replicated.write(0, run="b")
    assert [message.prepared is None for message in messages] == [point == "after decide"] * 2
    assert drive(replicated, "commit", messages, 0) == "done"
    assert replicated.committed_values() == expected(range(1))
    assert (replicated.manifests(), replicated.position()) == ([], 1)
