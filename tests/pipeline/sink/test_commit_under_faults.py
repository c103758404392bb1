"""Mode batch while brokers fail: what passes is waited for within the commit, what does not is told, and nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery
from tests.pipeline.sink.looking import ask, open_transactions
from tests.tiers import rest_proven
from tidelog.client import Admin
from tidelog.pipeline.sink.batch_commit import BatchCommit
from tidelog.pipeline.sink.errors import SinkFailed
from tidelog.pipeline.source.errors import BrokersSilent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_IMPATIENT: Final = {
    "kafka__request__timeout__ms": "3000",
    "kafka__delivery__timeout__ms": "6000",
    "kafka__max__block__ms": "5000",
    "kafka__default__api__timeout__ms": "5000",
}


class StrikingCommit(BatchCommit):
    """Does something to the world when a step has been taken, the first time."""

    def __init__(self, query: DrivenQuery, step: str, strike: Callable[[], None]) -> None:
        super().__init__(query.settings)
        self._left = [strike]
        original = getattr(self, step)

        def striking(*arguments: Any) -> Any:
            answer = original(*arguments)
            while self._left:
                self._left.pop()()
            return answer

        setattr(self, step, striking)


@pytest.fixture
def query(cluster: TidelogCluster, tmp_path: Path, topic: str, hand: Hand) -> Iterator[DrivenQuery]:
    hand.create(topic, 3)
    driven = DrivenQuery(cluster.bootstrap, tmp_path, topic=topic)
    driven.run_micro_batch(0, [b"0"] * 30)
    yield driven
    driven.close()


def values(hand: Hand, topic: str) -> Counter[bytes]:
    return Counter(record.value or b"" for record in hand.read(topic))


def coordinator_of(bootstrap: str, sink_id: str) -> int:
    async def look(admin: Admin) -> int:
        found = (await admin.transactions.find_coordinators([sink_id]))[sink_id]
        assert isinstance(found, int)
        return int(found)

    return ask(bootstrap, look)


@pytest.mark.parametrize("step", rest_proven(["send_output", "begin", "send_marker"]))
def test_the_death_of_a_leader_is_survived_within_the_commit(
    step: str, query: DrivenQuery, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    victim = hand.leader_of(topic)
    try:
        StrikingCommit(query, step, lambda: cluster.kill(victim)).commit(query.write(1, [b"1"] * 30), 1)
        query.run_micro_batch(2, [b"2"] * 30)
    finally:
        cluster.restart(victim)
    assert values(hand, topic) == {b"0": 30, b"1": 30, b"2": 30}


@pytest.mark.parametrize("step", rest_proven(["send_source_offsets", "begin"]))
def test_the_death_of_the_coordinator_is_survived_within_the_commit(
    step: str, query: DrivenQuery, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    victim = coordinator_of(cluster.bootstrap, query.settings.sink_id)
    try:
        StrikingCommit(query, step, lambda: cluster.kill(victim)).commit(query.write(1, [b"1"] * 30), 1)
    finally:
        cluster.restart(victim)
    query.run_micro_batch(2, [b"2"] * 30)
    assert values(hand, topic) == {b"0": 30, b"1": 30, b"2": 30}


def is_open(bootstrap: str, sink_id: str) -> bool:
    return any(each.transactional_id == sink_id for each in open_transactions(bootstrap))


@pytest.mark.proof
def test_a_transaction_whose_time_is_up_is_written_again_within_the_commit(
    cluster: TidelogCluster, tmp_path: Path, topic: str, hand: Hand
) -> None:
    hand.create(topic)
    query = DrivenQuery(cluster.bootstrap, tmp_path, topic=topic, kafka__transaction__timeout__ms="1000")
    query.run_micro_batch(0, [b"0"])

    def wait_for_the_coordinator() -> None:
        eventually(lambda: not is_open(cluster.bootstrap, query.settings.sink_id), "the transaction was aborted")

    StrikingCommit(query, "send_source_offsets", wait_for_the_coordinator).commit(query.write(1, [b"1"]), 1)
    query.run_micro_batch(2, [b"2"])
    assert values(hand, topic) == {b"0": 1, b"1": 1, b"2": 1}
    query.close()


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[TidelogCluster]:
    """A broker of its own, which a test may leave dead."""
    settings = {
        "auto.create.topics.enable": "false",
        "tidelog.registry.session.timeout.ms": "3000",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with TidelogCluster(tmp_path / "cluster", settings, broker_count=1) as started:
        yield started


@pytest.mark.proof
def test_a_cluster_that_is_gone_fails_the_commit_in_time_and_the_replay_writes_once(
    lonely: TidelogCluster, tmp_path: Path
) -> None:
    hand = Hand(lonely.bootstrap)
    hand.create("out", 2)
    patient = DrivenQuery(lonely.bootstrap, tmp_path / "checkpoint", topic="out")
    patient.run_micro_batch(0, [b"0"])
    query = DrivenQuery(lonely.bootstrap, tmp_path / "checkpoint", topic="out", **_IMPATIENT)
    messages = query.write(1, [b"1"])
    with pytest.raises((SinkFailed, BrokersSilent), match=r"could not commit|kafka\.bootstrap\.servers answered"):
        StrikingCommit(query, "send_output", lambda: lonely.kill(1)).commit(messages, 1)
    query.mode.abort(messages, 1)
    assert query.staged() == []
    lonely.restart(1)
    again = DrivenQuery(lonely.bootstrap, tmp_path / "checkpoint", run="run-2", topic="out")
    again.run_micro_batch(1, [b"1"])
    assert values(hand, "out") == {b"0": 1, b"1": 1}
    assert eventually(lambda: not open_transactions(lonely.bootstrap), "no transaction is open")
    for driven in (patient, query, again):
        driven.close()
    hand.close()
