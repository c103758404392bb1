"""Transactions whose topics go, come again, or are not known yet to whoever ends them."""

from __future__ import annotations

import pytest

from tests.simulation.by_hand import STATE, T0, ByHand, bank, open_bank, seen, status_of, until_stable
from tests.simulation.clusters import heal, kills, make_topic
from tests.simulation.workload import delete_topic
from tidelog.model import ErrorCode, TopicPartition
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.messages import Kind
from tidelog.wire.api import ApiKey

pytestmark = pytest.mark.slow

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])
U0 = TopicPartition("u", 0)


def written_to_both(cluster: SimulatedCluster, version: int) -> ByHand:
    """A transaction with a record in each of two partitions, which have different leaders."""
    one = ByHand(cluster, version=version)
    one.init()
    one.join(one.line(), T0, U0)
    assert one.produce(b"here", line=one.line(1)) is ErrorCode.NONE
    assert one.produce(b"there", U0, line=one.line(2)) is ErrorCode.NONE
    return one


@kills
@VERSIONS
def test_a_decided_transaction_gets_its_markers_though_topics_are_told_long_after_leaderships(version: int) -> None:
    """Everybody dies between a decision and its markers. Whoever coordinates afterwards knows that it does before it knows of any topic."""
    with bank() as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, version)
        messages = cluster.world.fabric.watch_messages()
        decided = messages.hold(Kind(host="broker-2", api_key=ApiKey.WRITE_TXN_MARKERS, is_answer=False))
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        cluster.until(lambda: decided.is_blocking, "the marker for t is on its way")
        cluster.world.run_for_ms(6_000)  # By now everybody has noted on disk that the decision is committed.
        topics = [
            messages.hold(Kind(host=f"broker-{number}", api_key=ApiKey.UPDATE_METADATA, is_answer=False))
            for number in (1, 2, 3)
        ]
        for broker in cluster.brokers.values():
            broker.kill()
        messages.release(decided)
        for broker in cluster.brokers.values():
            broker.restart()
        cluster.until(lambda: any(gate.is_blocking for gate in topics), "leaderships are told, and topics are not")
        cluster.world.run_for_ms(10_000)
        for gate in topics:
            messages.release(gate)
        heal(cluster, T0, U0, STATE)
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "it is complete")
        until_stable(cluster, T0, U0)
        assert (seen(cluster), seen(cluster, "u")) == (["here"], ["there"])


@kills
@VERSIONS
@pytest.mark.parametrize("comes_again", [False, True], ids=["goes", "comes again"])
def test_a_topic_that_is_deleted_during_a_transaction_does_not_keep_it_from_ending(
    version: int, *, comes_again: bool
) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, version)
        delete_topic(cluster, "u")
        cluster.until(lambda: U0 not in cluster.snapshot().replicas, "u is gone")
        if comes_again:
            make_topic(cluster, (2, 3, 1), name="u")
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "it is complete", within_ms=15_000)
        one.join(one.line(), T0)
        sequence = 1 if version == 1 else 0
        assert one.produce(b"next", line=one.line(1), sequence=sequence) is ErrorCode.NONE
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["here", "next"]
        if comes_again:
            until_stable(cluster, U0)
            assert seen(cluster, "u") == []
