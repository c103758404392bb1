"""Stories of three replicas that chance alone would seldom tell, each checked against everything that must always hold."""

from __future__ import annotations

import pytest

from tests.partition.replicas import values
from tests.partition.small_cluster import LAG_MS, SmallCluster
from tests.partition.what_holds import check, check_healed
from tidelog.model import Acks


def checked(cluster: SmallCluster) -> SmallCluster:
    """Answer whoever can be answered, then look for loss and disagreement."""
    cluster.answer_producers()
    check(cluster)
    return cluster


def contents(cluster: SmallCluster, broker_id: int) -> dict[int, str]:
    replica = cluster.brokers[broker_id].replica
    assert replica is not None
    return values(replica)


def test_a_follower_whose_joining_is_decided_but_not_answered_misses_nothing() -> None:
    """R13: the registry has it in the ISR, the leader does not know, and it has fallen silent."""
    cluster = SmallCluster(isr=(1, 2), min_isr=1)
    cluster.replicate(3)
    cluster.decide(1)
    assert cluster.state.isr == (1, 2, 3)
    cluster.wait(3, 2.0 * LAG_MS)
    cluster.produce_to((2,), 2)
    assert checked(cluster).acked == {}
    cluster.calm()
    cluster.calm()
    assert checked(cluster).acked == {0: "v0", 1: "v1"}


def test_a_follower_that_lacks_what_an_earlier_leader_committed_is_not_taken_in() -> None:
    """R12: the new leader holds three acknowledged records and does not know yet that they are committed."""
    cluster = SmallCluster(isr=(1, 2))
    cluster.produce_to((2,), 3)
    assert len(checked(cluster).acked) == 3
    cluster.hand_over(2)
    new_leader = cluster.brokers[2].replica
    assert new_leader is not None
    assert new_leader.high_watermark == 0
    cluster.crawl(3)
    cluster.decide(2)
    assert checked(cluster).state.isr == (1, 2)
    cluster.heal()
    check_healed(cluster)


def test_a_leader_that_missed_an_epoch_does_not_count_what_its_followers_had_to_cut() -> None:
    """States are told newest first, so a leader may hear of its own next epoch only after another's is over."""
    cluster = SmallCluster()
    cluster.produce(1, Acks.ALL)
    cluster.replicate(2)
    cluster.replicate(2)
    cluster.elect(3)
    cluster.tell(3)
    cluster.tell(2)
    cluster.replicate(2)
    assert contents(cluster, 2) == {}
    cluster.expire(3)
    cluster.tell(1)
    assert (cluster.state.leader, checked(cluster).acked) == (1, {})
    cluster.heal()
    check_healed(cluster)
    assert checked(cluster).acked == {0: "v0"}


def test_a_producer_is_not_told_of_success_when_its_record_gave_way_to_another() -> None:
    """R22: its leader was demoted, cut the record, and leads again with something else at that offset."""
    cluster = SmallCluster()
    cluster.produce(1, Acks.ALL)
    cluster.elect(2)
    for broker_id in (2, 3, 1):
        cluster.tell(broker_id)
    cluster.produce(2, Acks.LEADER)
    for _ in range(3):
        cluster.replicate(1)
        cluster.replicate(3)
    assert contents(cluster, 1) == {0: "v1"}
    cluster.hand_over(1)
    for _ in range(2):
        cluster.replicate(2)
        cluster.replicate(3)
    assert (checked(cluster).acked, cluster.parked) == ({}, [])


@pytest.mark.parametrize("is_new_life_heard_of", [True, False])
def test_the_fetch_of_an_earlier_life_brings_nobody_into_the_isr(*, is_new_life_heard_of: bool) -> None:
    """R15: a follower loses its log with the power while a fetch that would let it join is on its way to the leader.

    The leader refuses the fetch if it knows of the new life; else it names the old one, and the controller refuses that.
    """
    cluster = SmallCluster(isr=(1,), min_isr=1)
    cluster.produce_to((), 2)
    cluster.replicate(2)
    cluster.ask(2)
    late = cluster.fetches[2]
    cluster.cut_power(2, 0.0)
    cluster.start(2)
    cluster.tell(2)
    if is_new_life_heard_of:
        cluster.ask(2)
        cluster.serve(2)
    cluster.fetches[2] = late
    cluster.serve(2)
    cluster.decide(1)
    assert (contents(cluster, 2), checked(cluster).state.isr) == ({}, (1,))
    cluster.heal()
    check_healed(cluster)


def test_with_flush_messages_nothing_is_lost_when_all_lose_power_at_once() -> None:
    """D01: an acknowledgement counts flushed records only, the leader's and its followers'."""
    cluster = SmallCluster(flush_messages=1)
    cluster.produce_to((2, 3), 2)
    assert checked(cluster).acked == {0: "v0", 1: "v1"}
    cluster.produce(1, Acks.ALL)
    for broker_id in (2, 3):
        cluster.ask(broker_id)
        cluster.serve(broker_id)
        cluster.receive(broker_id)
    assert contents(cluster, 2) == {0: "v0", 1: "v1", 2: "v2"}
    cluster.ask(2)
    assert 2 not in cluster.fetches  # It does not say that it holds the third before it is flushed.
    for broker_id in (1, 2, 3):
        cluster.cut_power(broker_id, 0.0)
    cluster.heal()
    check_healed(cluster)
    assert [contents(cluster, broker_id) for broker_id in (1, 2, 3)] == [{0: "v0", 1: "v1"}] * 3


def test_a_member_counts_until_its_leaving_is_answered() -> None:
    """R13: the registry may hold the old ISR, and elect from it."""
    cluster = SmallCluster(min_isr=1)
    cluster.calm()
    cluster.produce(1, Acks.ALL)
    cluster.wait(1, 2.0 * LAG_MS)
    cluster.produce(1, Acks.ALL)
    assert (checked(cluster).acked, cluster.state.isr) == ({}, (1, 2, 3))
    cluster.decide(1)
    cluster.answer_change(1, is_lost=False)
    assert (checked(cluster).acked, cluster.state.isr) == ({0: "v0", 1: "v1"}, (1,))


def test_a_tail_of_an_earlier_epoch_does_not_stand_in_for_a_record_of_this_one() -> None:
    """R07: the demoted leader asks from an offset that it holds with another record."""
    cluster = SmallCluster()
    cluster.produce(1, Acks.ALL)
    cluster.elect(2)
    for broker_id in (2, 3, 1):
        cluster.tell(broker_id)
    cluster.produce(2, Acks.ALL)
    cluster.replicate(3)
    cluster.replicate(3)
    cluster.replicate(1)
    assert (checked(cluster).acked, contents(cluster, 1)) == ({}, {})
    cluster.replicate(1)
    cluster.replicate(1)
    assert checked(cluster).acked == {0: "v1"}
