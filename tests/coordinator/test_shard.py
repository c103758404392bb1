"""A shard: decisions are written, replayed and told in this order, and nobody hears what may yet be lost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tests.coordinator.counting import CLIENT, KEY, Bell, Count, Counted, CountingMachine, MemoryLog
from tidelog.coordinator import (
    RING_AGAIN_MAX_MS,
    RING_AGAIN_MS,
    Command,
    CoordinatorRecord,
    Decision,
    Moment,
    Reply,
    TimerKey,
)
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.coordinator.shard import BATCH_BYTES, Shard, ShardLimits
from tidelog.model import ApiError, ErrorCode, ProducerIdentity


class Room:
    """A shard, its machine, its log, and a clock that stands still."""

    def __init__(self, machine: CountingMachine | None = None, log: MemoryLog | None = None, **limits: int) -> None:
        self.machine = machine or CountingMachine()
        self.log = log or MemoryLog()
        self.troubles: list[str] = []
        self.shard = Shard(self.machine, self.log, ShardLimits(**limits), self.on_trouble)
        self.tokens = 0
        list(self.shard.on_loaded(lambda: self.at(0)))

    def on_trouble(self, what: object, error: Exception) -> None:
        assert what == Bell("a")
        self.troubles.append(error.code.name if isinstance(error, ApiError) else str(error))

    def at(self, monotonic_ms: float) -> Moment:
        return Moment(1_000 + int(monotonic_ms), monotonic_ms)

    def ask(self, request: Count, at_ms: float = 0) -> Sequence[Reply]:
        self.tokens += 1
        return self.shard.ask(Command(self.tokens, request, CLIENT), self.at(at_ms))

    def commit(self) -> list[Reply]:
        self.log.committed_offset = self.log.end_offset
        return self.shard.settle()

    def ring(self, at_ms: float) -> list[Reply]:
        return [reply for replies in self.shard.ring(self.at(at_ms)) for reply in replies]


def test_a_reply_waits_until_its_records_are_committed() -> None:
    room = Room()
    assert room.ask(Count(by=5)) == ()
    assert (room.machine.count, room.log.end_offset) == (5, 1), "written and replayed at once"
    assert room.shard.settle() == []
    assert room.commit() == [Reply(1, Counted(count=5))]
    assert room.shard.parked_count == 0


def test_a_reply_that_writes_nothing_waits_for_what_others_have_written() -> None:
    room = Room()
    room.ask(Count(by=5))
    assert room.ask(Count()) == (), "five may yet be lost"
    assert room.commit() == [Reply(1, Counted(count=5)), Reply(2, Counted(count=5))]
    assert room.ask(Count()) == [Reply(3, Counted(count=5))], "now it cannot"


def test_a_reply_that_tells_nothing_of_what_is_written_does_not_wait() -> None:
    room = Room()
    room.ask(Count(by=5))
    assert room.ask(Count(at_once=True)) == [Reply(2, Counted(count=5))]


def test_what_was_there_when_leadership_began_is_not_told_before_it_is_committed() -> None:
    log = MemoryLog()
    log.end_offset = 10
    shard = Shard(CountingMachine(), log, ShardLimits())
    command = Command(1, Count(), CLIENT)
    assert shard.ask(command, Moment(0, 0.0)) == ()
    log.committed_offset = 9
    assert shard.settle() == []
    log.committed_offset = 10
    assert shard.settle() == [Reply(1, Counted(count=0))]


def test_a_parked_command_is_answered_by_a_later_decision() -> None:
    room = Room()
    assert room.ask(Count(until=5)) == ()
    assert room.shard.parked_count == 1
    room.ask(Count(by=5))
    assert room.commit() == [Reply(2, Counted(count=5)), Reply(1, Counted(count=5))]


def test_whoever_is_gone_is_answered_no_more() -> None:
    room = Room()
    room.ask(Count(until=5))
    room.shard.forget(1)
    room.ask(Count(by=5))
    assert room.commit() == [Reply(2, Counted(count=5))]


def test_if_the_append_fails_nothing_was_decided() -> None:
    room = Room()
    room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert room.ask(Count(by=5)) == [Reply(1, Counted(error_code=ErrorCode.NOT_ENOUGH_REPLICAS))]
    assert (room.machine.count, room.shard.parked_count) == (0, 0)


def test_if_the_append_fails_those_whom_it_would_have_answered_are_refused_too() -> None:
    room = Room()
    room.ask(Count(until=5))
    room.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    refused = Counted(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    assert room.ask(Count(by=5)) == [Reply(2, refused), Reply(1, refused)]


def test_a_commit_that_takes_too_long_is_refused_and_stays_written() -> None:
    room = Room(commit_timeout_ms=5_000)
    room.ask(Count(by=5), at_ms=100)
    assert room.shard.next_ms == 5_100
    assert room.ring(5_099) == []
    assert room.ring(5_100) == [Reply(1, Counted(error_code=ErrorCode.REQUEST_TIMED_OUT))]
    assert room.machine.count == 5
    assert room.commit() == []


def test_one_command_too_many_is_refused_at_once_and_touches_nothing() -> None:
    room = Room(parked_max=2)
    room.ask(Count(until=1))
    room.ask(Count(until=1))
    assert room.ask(Count(by=9)) == (Reply(3, Counted(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)),)
    assert (room.machine.count, room.shard.parked_count) == (0, 2)


def test_a_timer_rings_when_it_is_due() -> None:
    machine = CountingMachine()
    machine.bells = {"a": 100.0, "b": 200.0}
    room = Room(machine)
    assert room.shard.next_ms == 100
    room.ring(150)
    assert (machine.count, room.shard.next_ms) == (1, 200)


def test_timers_of_a_new_leadership_run_from_when_all_of_them_are_set() -> None:
    clock, machine, log = itertools.count(5_000, 1_000), CountingMachine(), MemoryLog()
    machine.bells = {"a": 5_100.0, "b": 6_000.0}
    shard = Shard(machine, log, ShardLimits())
    list(shard.on_loaded(lambda: Moment(0, float(next(clock)))))
    assert shard.next_ms == 6_100
    for at_ms, count in ((6_099, 0), (6_100, 1), (6_999, 1), (7_000, 2)):
        list(shard.ring(Moment(0, at_ms)))
        assert machine.count == count


def test_a_timer_rings_again_if_what_it_decided_could_not_be_written() -> None:
    machine = CountingMachine()
    machine.bells = {"a": 100.0}
    room = Room(machine)
    room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.ring(100)
    assert (machine.count, room.shard.next_ms) == (0, 100 + RING_AGAIN_MS)
    room.log.error = None
    room.ring(100 + RING_AGAIN_MS)
    assert (machine.count, room.shard.next_ms) == (1, None)


def test_topics_that_changed_are_looked_at_again_if_that_could_not_be_written() -> None:
    room = Room()
    room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.shard.on_topics_changed(room.at(0))
    room.log.error = None
    room.ring(RING_AGAIN_MS)
    assert (room.machine.topics_told, room.machine.count) == (2, 100)


def test_a_shard_that_closes_refuses_everybody_and_rings_no_more() -> None:
    machine = CountingMachine()
    machine.bells = {"a": 100.0}
    room = Room(machine)
    room.ask(Count(until=5))
    room.ask(Count(by=1))
    refused = Counted(error_code=ErrorCode.NOT_COORDINATOR)
    assert room.shard.close(ErrorCode.NOT_COORDINATOR) == [Reply(1, refused), Reply(2, refused)]
    assert (room.ring(1_000), room.commit(), room.shard.next_ms) == ([], [], None)


def test_nothing_that_waits_is_told_once_the_leadership_is_over() -> None:
    room = Room()
    room.ask(Count(by=5))
    room.log.committed_offset = -1
    assert room.shard.settle() == []
    assert room.ask(Count()) == ()


class Sweeper(CountingMachine):
    """Has a lot to write when its bell rings."""

    def __init__(self, *, may_be_cut: bool = True) -> None:
        super().__init__()
        self.may_be_cut = may_be_cut

    def on_timer(self, key: TimerKey, now: Moment) -> Decision:
        records = tuple(CoordinatorRecord(KEY, b"1".rjust(1_000, b"0")) for _ in range(2_000))
        return Decision(records=records, may_be_cut=self.may_be_cut)


def test_what_is_too_much_for_one_batch_is_all_there_or_not_at_all() -> None:
    machine = Sweeper(may_be_cut=False)
    machine.bells = {"a": 1.0}
    room = Room(machine)
    room.ring(1)
    assert [len(batch) > 3 * BATCH_BYTES for _, batch in room.log.batches] == [True]
    assert machine.count == 2_000


def test_what_is_larger_than_a_message_is_refused_as_a_whole_and_tried_less_and_less_often() -> None:
    machine = Sweeper(may_be_cut=False)
    machine.bells = {"a": 0.0}
    room = Room(machine)
    room.log.error = ErrorCode.MESSAGE_TOO_LARGE
    rung: list[float] = [0]
    room.ring(0)
    while rung[-1] < 400_000:
        assert room.shard.next_ms is not None
        rung.append(room.shard.next_ms)
        room.ring(rung[-1])
    pauses = [after - before for before, after in itertools.pairwise(rung)]
    assert pauses[:4] == [RING_AGAIN_MS, 2 * RING_AGAIN_MS, 4 * RING_AGAIN_MS, 8 * RING_AGAIN_MS]
    assert set(pauses[8:]) == {RING_AGAIN_MAX_MS}
    assert room.troubles == ["MESSAGE_TOO_LARGE"] * len(rung)
    assert (machine.count, room.log.batches) == (0, [])
    room.log.error = None
    room.ring(rung[-1] + RING_AGAIN_MAX_MS)
    assert machine.count == 2_000


def test_what_may_be_cut_is_written_in_several_batches_if_it_is_too_much_for_one() -> None:
    machine = Sweeper()
    machine.bells = {"a": 1.0}
    room = Room(machine)
    room.ring(1)
    sizes = [len(batch) for _, batch in room.log.batches]
    assert len(sizes) == 4
    assert max(sizes) < BATCH_BYTES + 64 * 1024
    assert machine.count == 2_000
    assert [written.offset for _, written in machine.seen] == list(range(2_000))


@pytest.mark.parametrize("bytes_max", [1_400, 5_000, 100_000, BATCH_BYTES])
def test_what_may_be_cut_fits_into_the_messages_that_the_topic_allows(bytes_max: int) -> None:
    machine = Sweeper()
    machine.bells = {"a": 1.0}
    room = Room(machine)
    room.log.batch_bytes_max = bytes_max
    room.ring(1)
    assert (machine.count, room.shard.next_ms) == (2_000, None)
    assert max(len(batch) for _, batch in room.log.batches) > bytes_max * 3 // 4, (
        "and not into more of them than necessary"
    )


def test_what_could_only_be_written_in_part_is_decided_again() -> None:
    class Filling(MemoryLog):
        def put(self, batch: bytearray, *, count: int | None = None) -> int:
            self.error = ErrorCode.NOT_ENOUGH_REPLICAS
            return super().put(batch, count=count)

    machine = Sweeper()
    machine.bells = {"a": 1.0}
    room = Room(machine, Filling())
    room.ring(1)
    assert 0 < machine.count < 2_000
    assert room.shard.next_ms == 1 + RING_AGAIN_MS


def test_a_machine_that_breaks_keeps_nobody_waiting() -> None:
    class Broken(CountingMachine):
        def decide(self, command: Command, now: Moment) -> Decision:
            raise RuntimeError("broken")

    room = Room(Broken())
    with pytest.raises(RuntimeError):
        room.ask(Count())
    assert room.shard.parked_count == 0


def test_a_timer_whose_decision_breaks_rings_again_less_and_less_often_and_others_ring_meanwhile() -> None:
    class Broken(CountingMachine):
        is_broken = True

        def on_timer(self, key: TimerKey, now: Moment) -> Decision:
            if self.is_broken and key == Bell("a"):
                raise RuntimeError("broken")
            return super().on_timer(key, now)

    machine = Broken()
    machine.bells = {"a": 100.0, "b": 100.0}
    room = Room(machine)
    with pytest.raises(RuntimeError, match="broken"):
        room.ring(100)
    room.ring(100)
    assert (machine.count, room.shard.next_ms) == (1, 100 + RING_AGAIN_MS)
    with pytest.raises(RuntimeError, match="broken"):
        room.ring(100 + RING_AGAIN_MS)
    assert room.shard.next_ms == 100 + 3 * RING_AGAIN_MS
    machine.is_broken = False
    room.ring(100 + 3 * RING_AGAIN_MS)
    assert machine.count == 2


PRODUCER = ProducerIdentity(7, 3)
COMMITTED = TransactionEnd(producer=PRODUCER, is_committed=True, coordinator_epoch=1)


def test_records_of_a_transaction_are_replayed_with_the_name_of_their_producer() -> None:
    room = Room()
    room.ask(Count(by=5, producer=PRODUCER))
    ((_, written),) = room.machine.seen
    assert (written.producer_id, written.producer_epoch) == PRODUCER


def test_a_marker_is_written_and_then_told_to_the_machine() -> None:
    room = Room()
    room.ask(Count(by=5, producer=PRODUCER))
    assert room.shard.end_transaction(COMMITTED, room.at(0)) == 1
    assert room.machine.ended == [(7, True, 1)]
    room.log.committed_offset = 1
    assert room.shard.settle() == [Reply(1, Counted(count=5))]
    assert room.ask(Count()) == (), "what the marker has decided may yet be lost"
    assert room.commit() == [Reply(2, Counted(count=5))]


def test_a_marker_that_cannot_be_written_decides_nothing() -> None:
    room = Room()
    room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(ApiError):
        room.shard.end_transaction(COMMITTED, room.at(0))
    assert room.machine.ended == []


def test_an_errand_is_run_once_everything_is_committed_that_was_decided_before_it() -> None:
    room = Room()
    room.ask(Count(by=5, errand="first"))
    room.ask(Count(errand="second"))
    assert room.shard.is_waiting_for_commit
    assert room.shard.take_errands() == []
    room.log.committed_offset = room.log.end_offset
    assert room.shard.take_errands() == ["first", "second"]
    assert room.shard.take_errands() == []


def test_an_errand_outlives_whoever_asked_for_it() -> None:
    room = Room(commit_timeout_ms=100)
    room.ask(Count(by=5, errand="first"))
    assert room.ring(100) == [Reply(1, Counted(error_code=ErrorCode.REQUEST_TIMED_OUT))]
    room.log.committed_offset = room.log.end_offset
    assert room.shard.take_errands() == ["first"]


def test_an_errand_whose_decision_was_not_written_is_never_run() -> None:
    room = Room()
    room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.ask(Count(by=5, errand="first"))
    room.log.committed_offset = room.log.end_offset
    assert room.shard.take_errands() == []


def test_errands_are_forgotten_with_the_leadership() -> None:
    room = Room()
    room.ask(Count(by=5, errand="first"))
    room.shard.close(ErrorCode.NOT_COORDINATOR)
    room.log.committed_offset = room.log.end_offset
    assert room.shard.take_errands() == []
