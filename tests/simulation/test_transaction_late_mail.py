"""Late mail, row by row of the fault matrix (T07 to T10): a request that the network held back arrives when its client has gone on.

The client has given the old line up and used a new one meanwhile, as one does whose request timed out. Old clients (version 1) write all
their transactions under one epoch, new ones (version 2, KIP-890) each under its own.
"""

from __future__ import annotations

import pytest

from tests.simulation.by_hand import (
    GROUP,
    OFFSETS,
    T0,
    ByHand,
    bank,
    open_bank,
    seen,
    status_of,
    until_stable,
)
from tests.simulation.group_members import committed
from tidelog.model import ErrorCode, TopicPartition
from tidelog.simulation.checkers.group_offsets import stored_offsets
from tidelog.simulation.cluster import SimulatedCluster

pytestmark = pytest.mark.slow

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])
U0 = TopicPartition("u", 0)


def producer(cluster: SimulatedCluster, version: int) -> ByHand:
    """One that has taken its id."""
    one = ByHand(cluster, version=version)
    assert one.init().error_code is ErrorCode.NONE
    return one


@VERSIONS
@pytest.mark.parametrize("has_written", [False, True], ids=["first batch", "later batch"])
def test_t07_a_batch_that_comes_after_its_transaction_was_aborted_does_not_hold_readers_up(
    version: int, *, has_written: bool
) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, version)
        coordinator, old = one.line(), one.line(1)
        one.join(coordinator, T0)
        if has_written:
            assert one.produce(b"early", line=old) is ErrorCode.NONE
        elif version == 2:
            assert one.produce(b"elsewhere", U0, line=one.line(2)) is ErrorCode.NONE
        late, as_version = one.produce_request(b"late")
        assert one.end(coordinator, committed=False) is ErrorCode.NONE
        until_stable(cluster, T0)
        refused = old.ask(late, as_version).responses[0].partition_responses[0].error_code
        assert refused is not ErrorCode.NONE
        until_stable(cluster, T0)
        assert "late" not in seen(cluster, isolation="read_uncommitted")
        assert seen(cluster) == []


@VERSIONS
@pytest.mark.parametrize("listener_of_brokers", ["", "PLAINTEXT"], ids=["two listeners", "one listener"])
def test_t08_a_batch_of_the_last_transaction_does_not_get_into_the_next(version: int, listener_of_brokers: str) -> None:
    """Clients and brokers may use the same listener, as the usual compose files have it."""
    with bank(inter_broker_listener_name=listener_of_brokers) as cluster:
        open_bank(cluster)
        one = producer(cluster, version)
        coordinator, old = one.line(), one.line(1)
        one.join(coordinator, T0)
        assert one.produce(b"first", line=old) is ErrorCode.NONE
        late, as_version = one.produce_request(b"late")
        later, _ = one.produce_request(b"later")
        assert one.end(coordinator, committed=False) is ErrorCode.NONE
        new = one.line(1)
        one.join(coordinator, T0)
        number = 1 if version == 1 else 0  # The old client thinks that its batch was lost, and uses the number again.
        assert one.produce(b"next", line=new, sequence=number) is ErrorCode.NONE
        for batch in (late, later):
            refused = old.ask(batch, as_version).responses[0].partition_responses[0].error_code
            assert refused is not ErrorCode.NONE
        assert one.end(coordinator, committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["next"]
        assert not {"late", "later"} & set(seen(cluster, isolation="read_uncommitted"))


@VERSIONS
@pytest.mark.parametrize("committed", [False, True], ids=["abort", "commit"])
def test_t09_the_end_of_the_last_transaction_does_not_end_the_next(version: int, *, committed: bool) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, version)
        old = one.line()
        one.join(old, T0)
        assert one.produce(b"first", line=one.line(1)) is ErrorCode.NONE
        late, as_version = one.end_request(committed=committed)
        new = one.line()
        assert one.end(new, committed=committed) is ErrorCode.NONE
        one.join(new, T0, U0)
        assert one.produce(b"next", line=one.line(1)) is ErrorCode.NONE
        for _ in range(2):  # The client had asked twice before it gave up.
            assert old.ask(late, as_version).error_code in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        assert status_of(cluster) == "Ongoing"
        assert one.produce(b"more", U0, line=one.line(2)) is ErrorCode.NONE
        assert one.end(new, committed=not committed) is ErrorCode.NONE
        until_stable(cluster, T0, U0)
        expected = ["first"] if committed else ["next"]
        assert seen(cluster) == expected
        assert seen(cluster, "u") == ([] if committed else ["more"])


def test_t09_partitions_of_the_last_transaction_are_not_added_to_the_next() -> None:
    """Of the old protocol only: a partition that nobody writes to would have a marker too many, and open a transaction after its end."""
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, 1)
        old, new = one.line(), one.line()
        one.join(new, T0)
        assert one.end(new, committed=True) is ErrorCode.NONE
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "it is complete")
        assert one.add(U0, line=old) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert status_of(cluster) == "CompleteCommit"
        one.join(new, T0)
        assert one.end(new, committed=True) is ErrorCode.NONE


def test_t09_partitions_and_the_end_of_the_last_transaction_come_late_one_after_the_other() -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, 1)
        old = one.line()
        one.join(old, T0)
        assert one.produce(b"first", line=one.line(1)) is ErrorCode.NONE
        late, as_version = one.end_request(committed=False)
        new = one.line()
        assert one.end(new, committed=True) is ErrorCode.NONE
        one.join(new, T0)
        assert one.produce(b"next", line=one.line(1)) is ErrorCode.NONE
        assert one.add(U0, line=old) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert old.ask(late, as_version).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
        assert status_of(cluster) == "Ongoing"
        assert one.end(new, committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["first", "next"]


def test_t09_an_old_client_that_uses_both_lines_is_heard_by_the_older_one_after_a_second() -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, 1)
        old, new = one.line(), one.line()
        one.join(new, T0)
        late, as_version = one.end_request(committed=True)
        assert old.ask(late, as_version).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
        cluster.world.run_for_ms(1_000)
        assert old.ask(late, as_version).error_code is ErrorCode.NONE
        until_stable(cluster, T0)


def offsets_of(cluster: SimulatedCluster) -> tuple[int | None, set[int | None]]:
    """What the group is told to have committed, and what the logs say."""
    told = committed(cluster, count=1, group=GROUP)[0]
    stored = stored_offsets(cluster, cluster.snapshot(), [GROUP])[GROUP]
    return None if told is None else told.offset, {each.get(T0) for each in stored.values()}


@VERSIONS
@pytest.mark.parametrize("has_sent", [False, True], ids=["first offsets", "later offsets"])
def test_t10_offsets_that_come_after_their_transaction_was_aborted_are_refused(version: int, *, has_sent: bool) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, version)
        coordinator, old = one.line(), one.line(1)
        if version == 1:
            assert one.add_offsets(coordinator) is ErrorCode.NONE
        else:
            assert one.produce(b"m", line=one.line(1)) is ErrorCode.NONE
        if has_sent:
            assert one.offsets(3, line=old) is ErrorCode.NONE
        late, as_version = one.offsets_request(7)
        assert one.end(coordinator, committed=False) is ErrorCode.NONE
        until_stable(cluster, OFFSETS)
        assert old.ask(late, as_version).topics[0].partitions[0].error_code is not ErrorCode.NONE
        until_stable(cluster, OFFSETS)
        assert offsets_of(cluster) == (None, {None})


@VERSIONS
def test_t10_offsets_of_a_transaction_that_was_committed_count_for_memory_and_log_alike(version: int) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = producer(cluster, version)
        coordinator = one.line()
        if version == 1:
            assert one.add_offsets(coordinator) is ErrorCode.NONE
        assert one.offsets(7, line=one.line(1)) is ErrorCode.NONE
        assert one.end(coordinator, committed=True) is ErrorCode.NONE
        until_stable(cluster, OFFSETS)
        assert offsets_of(cluster) == (7, {7})
