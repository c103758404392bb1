"""Transactions on replicas: what a leader asks for, what counts as decided, and what is forgotten with a leadership."""

from __future__ import annotations

import pytest

from tests.partition.replicas import NOW, apply, catch_up, elect, fetch_of, led_by, replica, take
from tidelog.client.aborted import AbortedFilter, AbortedTransaction
from tidelog.config import LogConfig
from tidelog.model import Acks, ApiError, ErrorCode, IsolationLevel, ProducerIdentity
from tidelog.partition import Partition, PartitionRead
from tidelog.records import MarkerType, RecordBatchBuilder, build_marker, headers, read_marker, read_records
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.storage import Guard

PRODUCER = ProducerIdentity(9, 0)


def sent(sequence: int = 0, *, producer: ProducerIdentity = PRODUCER, value: bytes = b"v") -> bytearray:
    producer_id, producer_epoch = producer
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, is_transactional=True
    )
    builder.append(timestamp_ms=NOW, key=None, value=value)
    return builder.build()


def begin(leader: Partition) -> Guard | None:
    return leader.begin_verification(PRODUCER, sequence=0, has_own_epoch=False)


def produce(leader: Partition, guard: Guard | None, sequence: int = 0) -> int:
    appended, _ = leader.append_as_leader(sent(sequence), acks=Acks.ALL, produce_version=9, now_ms=NOW, guard=guard)
    return appended.base_offset


def end(leader: Partition, kind: MarkerType = MarkerType.ABORT, *, producer_id: int = 9, epoch: int = 1) -> int:
    marker = build_marker(kind, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=NOW)
    appended, _ = leader.append_marker(marker, now_ms=NOW, has_own_epoch=True)
    return appended.last_offset


def refusal(leader: Partition, guard: Guard | None, sequence: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        produce(leader, guard, sequence)
    return refused.value.code


def test_a_transaction_is_undecided_until_its_marker_is_committed() -> None:
    leader, follower = replica(1), replica(2)
    elect(leader, follower, epoch=0, isr=(1, 2))
    produce(leader, begin(leader))
    catch_up(leader, follower)
    assert (leader.high_watermark, leader.last_stable_offset) == (1, 0)
    end(leader)
    assert (leader.high_watermark, leader.last_stable_offset) == (1, 0)
    catch_up(leader, follower)
    assert (leader.high_watermark, leader.last_stable_offset) == (2, 2)
    assert (follower.high_watermark, follower.last_stable_offset) == (2, 2)
    for one in (leader, follower):
        read = one.read(0, max_bytes=1_000, isolation=IsolationLevel.READ_COMMITTED, may_follow=True)
        assert [txn.first_offset for txn in read.aborted_transactions or ()] == [0]


def test_a_marker_that_too_few_replicas_would_hold_is_not_written() -> None:
    leader = replica(1, LogConfig(min_insync_replicas=2))
    leader.become_leader(led_by(1, isr=(1,)))
    with pytest.raises(ApiError) as refused:
        end(leader)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.log_end_offset == 0


def test_a_marker_that_is_told_again_is_settled_when_the_first_one_is() -> None:
    leader, follower = replica(1), replica(2)
    elect(leader, follower, epoch=0, isr=(1, 2))
    first = end(leader)
    again = end(leader)
    assert (first, again, leader.log.log_end_offset) == (0, 0, 1)
    assert not leader.is_settled(again + 1, Acks.ALL)
    catch_up(leader, follower)
    assert leader.is_settled(again + 1, Acks.ALL)


def test_who_does_not_lead_neither_asks_coordinators_nor_hears_them() -> None:
    follower = replica(2)
    follower.become_follower(led_by(1), now_ms=NOW)
    for attempt in (begin, end):
        with pytest.raises(ApiError) as refused:
            attempt(follower)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("how", ["following", "stepping down"])
def test_what_was_asked_during_one_reign_says_nothing_in_the_next(how: str) -> None:
    leader = replica(1)
    leader.become_leader(led_by(1, 0, isr=(1,)))
    guard = begin(leader)
    if how == "following":
        leader.become_follower(led_by(2, 1), now_ms=NOW)
    else:
        leader.step_down()
    assert len(leader.log.verification) == 0
    leader.become_leader(led_by(1, 2, isr=(1,)))
    assert refusal(leader, guard) is ErrorCode.INVALID_TXN_STATE
    assert produce(leader, begin(leader)) == 0


def test_an_epoch_that_the_same_leader_begins_anew_disturbs_nobody_who_asks() -> None:
    leader = replica(1)
    leader.become_leader(led_by(1, 0, isr=(1,)))
    guard = begin(leader)
    leader.become_leader(led_by(1, 1, isr=(1,)))
    assert produce(leader, guard) == 0


def test_t03_a_new_leader_goes_on_with_the_transactions_of_the_old_one() -> None:
    old, new = replica(1), replica(2)
    elect(old, new, epoch=0, isr=(1, 2))
    produce(old, begin(old))
    catch_up(old, new)
    elect(new, old, epoch=1, isr=(1, 2))
    assert begin(new) is None
    assert produce(new, None, 1) == 1
    assert end(new) == 2
    catch_up(new, old)
    assert old.last_stable_offset == new.last_stable_offset == 3


def test_t13_a_marker_that_was_lost_with_its_leader_is_written_by_the_next_one() -> None:
    old, new = replica(1), replica(2)
    elect(old, new, epoch=0, isr=(1, 2))
    produce(old, begin(old))
    catch_up(old, new)
    assert end(old) == 1  # Nobody has fetched it.
    elect(new, old, epoch=1, isr=(1, 2))
    assert new.last_stable_offset == 0
    assert end(new, MarkerType.ABORT) == 1
    catch_up(new, old)
    assert (old.log.log_end_offset, old.last_stable_offset, new.last_stable_offset) == (2, 2, 2)


def shown(read: PartitionRead) -> list[bytes]:
    """What a careful consumer hands out of one read."""
    aborted = AbortedFilter(AbortedTransaction(*one) for one in read.aborted_transactions or ())
    found: list[bytes] = []
    for position, header in headers(read.records):
        data = read.records[position : position + header.size]
        named = {"producer_id": header.producer_id, "last_offset": header.last_offset}
        if header.is_control:
            aborted.on_marker(**named, is_abort=read_marker(data).type is MarkerType.ABORT)
        elif not aborted.is_aborted(**named, is_transactional=header.is_transactional):
            found += [record.value or b"" for record in read_records(data, max_bytes=1 << 20)]
    return found


@pytest.mark.parametrize("seed", range(10))
def test_t15_whatever_the_high_watermark_passes_no_reader_sees_what_was_aborted_or_is_undecided(seed: int) -> None:
    draw = SimulatedRandomness(seed)
    leader, follower = replica(1), replica(2)
    elect(leader, follower, epoch=0, isr=(1, 2))
    epochs, open_values = {1: 0, 2: 0}, dict[int, list[bytes]]({1: [], 2: []})
    decided: list[tuple[int, list[bytes]]] = []  # where the marker of a committed transaction lies, and its values
    for number in range(50):
        producer_id = 1 + draw.below(2)
        producer = ProducerIdentity(producer_id, epochs[producer_id])
        match draw.below(5):
            case 0 | 1:
                guard = leader.begin_verification(producer, sequence=0, has_own_epoch=True)
                value = str(number).encode()
                batch = sent(len(open_values[producer_id]), producer=producer, value=value)
                leader.append_as_leader(batch, acks=Acks.ALL, produce_version=12, now_ms=NOW, guard=guard)
                open_values[producer_id].append(value)
            case 2:
                epochs[producer_id] += 1
                kind = MarkerType(draw.below(2))
                offset = end(leader, kind, producer_id=producer_id, epoch=epochs[producer_id])
                decided += [(offset, open_values[producer_id])] if kind is MarkerType.COMMIT else []
                open_values[producer_id] = []
            case _:
                read, _ = take(leader, fetch_of(follower), max_bytes=1 + draw.below(300))
                apply(follower, read)
        for one in (leader, follower):
            offset = one.log.log_start_offset
            found: list[bytes] = []
            while offset < one.last_stable_offset:
                got = one.read(
                    offset, max_bytes=1 + draw.below(400), isolation=IsolationLevel.READ_COMMITTED, may_follow=True
                )
                assert got.last_stable_offset <= got.high_watermark
                found += shown(got)
                offset = [header.next_offset for _, header in headers(got.records)][-1]
                assert offset <= got.last_stable_offset
            committed = {value for _, values in decided for value in values}
            visible = {value for at, values in decided for value in values if at < one.last_stable_offset}
            assert visible <= set(found) <= committed
            assert len(found) == len(set(found))
