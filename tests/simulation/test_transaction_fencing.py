"""Fencing, row by row of the fault matrix (T11, T12, T17, G06): who was replaced, timed out or left its group changes nothing."""

from __future__ import annotations

import pytest

from tests.simulation.by_hand import (
    GROUP,
    OFFSETS,
    STATE,
    T0,
    ByHand,
    bank,
    open_bank,
    seen,
    status_of,
    until_stable,
    wait_s,
)
from tests.simulation.clusters import heal, kills
from tests.simulation.group_members import CLASSIC, CONSUMER, Member, committed, share_all
from tidelog.model import ErrorCode, TopicPartition

pytestmark = pytest.mark.slow

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])
U0 = TopicPartition("u", 0)
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@VERSIONS
def test_t11_a_zombie_is_fenced_on_every_call(version: int) -> None:
    """It has a transaction with a record and an offset open when another takes its id over, and goes on as if nothing had happened."""
    with bank() as cluster:
        open_bank(cluster)
        zombie, successor = ByHand(cluster, version=version), ByHand(cluster, version=version)
        zombie.init()
        line, leader = zombie.line(), zombie.line(1)
        zombie.join(line, T0)
        assert zombie.produce(b"half", line=leader) is ErrorCode.NONE
        if version == 1:
            assert zombie.add_offsets(line) is ErrorCode.NONE
        assert zombie.offsets(5, line=leader) is ErrorCode.NONE
        assert successor.init().error_code is ErrorCode.NONE
        assert successor.identity > zombie.identity
        until_stable(cluster, T0, OFFSETS)

        assert zombie.produce(b"more", line=leader) in FENCED
        assert zombie.produce(b"elsewhere", U0, line=zombie.line(2)) is not ErrorCode.NONE
        assert zombie.offsets(6, line=leader) in FENCED
        assert set(zombie.add(U0, line=line)) <= set(FENCED)
        assert zombie.add_offsets(line) in FENCED
        assert zombie.end(line, committed=True) in FENCED
        assert zombie.end(line, committed=False) in FENCED

        until_stable(cluster, T0, U0, OFFSETS)
        assert seen(cluster) == seen(cluster, "u") == []
        assert seen(cluster, isolation="read_uncommitted") == ["half"]
        assert committed(cluster, count=1, group=GROUP) == {0: None}


@VERSIONS
def test_t11_what_the_zombie_had_open_is_aborted_before_its_successor_may_write(version: int) -> None:
    with bank() as cluster:
        open_bank(cluster)
        zombie, successor = ByHand(cluster, version=version), ByHand(cluster, version=version)
        zombie.init()
        zombie.join(zombie.line(), T0)
        assert zombie.produce(b"half", line=zombie.line(1)) is ErrorCode.NONE
        successor.init()
        assert status_of(cluster) == "Empty"
        assert [view.last_stable_offset for view in cluster.snapshot().leaders() if view.topic_partition == T0] == [2]
        line = successor.line()
        successor.join(line, T0)
        assert successor.produce(b"whole", line=successor.line(1)) is ErrorCode.NONE
        assert successor.end(line, committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["whole"]


@kills
def test_t12_an_id_that_is_fenced_while_its_log_is_not_writable_does_not_run_out_of_epochs() -> None:
    with bank(replica_lag_time_max_ms="1000") as cluster:
        open_bank(cluster)
        one = ByHand(cluster)
        one.init()
        before = one.identity
        one.join(one.line(), T0)
        for broker_id in (1, 3):
            cluster.brokers[broker_id].kill()
        cluster.until(lambda: cluster.state(STATE).isr == (2,), "one replica is left")
        line = one.line(2)
        answers = set()
        for _ in range(100):
            answers.add(one.init_once(line).error_code)
        assert ErrorCode.NONE not in answers
        assert answers & {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}, answers
        heal(cluster, STATE, T0)
        assert one.init().error_code is ErrorCode.NONE
        assert one.identity.producer_id == before.producer_id
        assert one.identity.producer_epoch <= before.producer_epoch + 3


@VERSIONS
def test_t17_a_client_that_sleeps_longer_than_its_transaction_may_last_commits_nothing(version: int) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = ByHand(cluster, version=version)
        one.init(timeout_ms=3_000)
        line, leader = one.line(), one.line(1)
        one.join(line, T0)
        assert one.produce(b"half", line=leader) is ErrorCode.NONE
        wait_s(cluster, 2)
        assert status_of(cluster) == "Ongoing"
        wait_s(cluster, 4)
        until_stable(cluster, T0, within_ms=1_000)
        assert status_of(cluster) == "CompleteAbort"
        assert one.produce(b"more", line=leader) in FENCED
        assert one.end(line, committed=True) in (*FENCED, ErrorCode.INVALID_TXN_STATE)
        assert seen(cluster) == []
        assert one.init().error_code is ErrorCode.NONE


def test_t17_a_transaction_of_two_phases_waits_for_its_owner_for_ever() -> None:
    with bank() as cluster:
        open_bank(cluster)
        one, owner = ByHand(cluster, version=2), ByHand(cluster, version=2)
        one.init(timeout_ms=1_000, enable2_pc=True, keep_prepared_txn=False)
        assert one.produce(b"prepared", line=one.line(1)) is ErrorCode.NONE
        wait_s(cluster, 120)
        assert status_of(cluster) == "Ongoing"
        assert seen(cluster) == []
        kept = owner.init(enable2_pc=True, keep_prepared_txn=True)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == one.identity
        assert one.produce(b"late", U0, line=one.line(2)) is not ErrorCode.NONE
        assert one.end(one.line(), committed=False) in FENCED
        assert owner.end(owner.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0, U0)
        assert seen(cluster) == ["prepared"]


@kills
@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
@VERSIONS
def test_g06_offsets_of_a_generation_that_is_over_are_refused(version: int, protocol: dict[str, str]) -> None:
    """KIP-447: the transaction is the zombie's own, and in good order; but its group has given the partition to another."""
    with bank(group_consumer_session_timeout_ms="6000", group_consumer_min_session_timeout_ms="6000") as cluster:
        open_bank(cluster)
        settings = {**protocol, "enable.auto.commit": "false"}
        zombie = Member(cluster, "zombie", settings)
        cluster.until(share_all(1, zombie), "it owns the partition")
        assert zombie.consumer is not None
        before = zombie.consumer.group.metadata()
        zombie.node.pause()
        heir = Member(cluster, "heir", settings)
        cluster.until(lambda: T0 in heir.owned, "another owns it")
        one = ByHand(cluster, version=version)
        one.init()
        line, coordinator = one.line(1), one.line()
        if version == 1:
            assert one.add_offsets(coordinator) is ErrorCode.NONE
        else:
            assert one.produce(b"copy", line=one.line(1)) is ErrorCode.NONE
        refused = one.offsets(3, line=line, generation=before.generation, member=before.member_id)
        assert refused in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.FENCED_MEMBER_EPOCH,
        )
        assert heir.consumer is not None
        now = heir.consumer.group.metadata()
        assert one.offsets(4, line=line, generation=now.generation, member=now.member_id) is ErrorCode.NONE
        assert one.end(coordinator, committed=True) is ErrorCode.NONE
        until_stable(cluster, OFFSETS)
        told = committed(cluster, count=1, group=GROUP)[0]
        assert told is not None
        assert told.offset == 4
        heir.kill()
        zombie.node.resume()
        zombie.kill()
