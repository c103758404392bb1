"""A replica as follower: where it fetches, what it takes over, and how it finds where its log parts from the leader's."""

from __future__ import annotations

import pytest

from tests.partition.replicas import (
    NOW,
    apply,
    batch,
    catch_up,
    elect,
    fetch,
    fetch_of,
    led_by,
    produce,
    refused,
    replica,
    replicate,
    take,
    values,
)
from tidelog.config import LogConfig
from tidelog.config.replication import HIGH_WATERMARK
from tidelog.model import Acks, ErrorCode, IsolationLevel
from tidelog.partition import (
    FetchPosition,
    FlushWanted,
    HighWatermarkAdvanced,
    LeadershipChanged,
    LogEndAdvanced,
    LogTruncated,
    Partition,
    delete_records,
)
from tidelog.records import RecordBatchBuilder
from tidelog.runtime import DiskFull
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import EpochEndOffset

READER = {"max_bytes": 1 << 20, "isolation": IsolationLevel.READ_UNCOMMITTED}


def history(of: Partition, *epochs: tuple[int, str]) -> Partition:
    """Give a replica records of these epochs, as if it had led them alone."""
    for epoch, letters in epochs:
        of.log.assign_leader_epoch(epoch)
        for letter in letters:
            builder = RecordBatchBuilder()
            builder.append(timestamp_ms=NOW, key=None, value=letter.encode())
            of.log.append_as_leader(builder.build(), leader_epoch=epoch, now_ms=NOW)
    return of


def epochs_of(of: Partition) -> list[int]:
    """The epoch of each record."""
    return [of.log.epoch_at(offset) for offset in range(of.log.log_start_offset, of.log.log_end_offset)]


def test_a_follower_goes_on_at_its_log_end_with_its_newest_epoch() -> None:
    follower = history(replica(2), (0, "ab"), (3, "c"))
    assert follower.fetch_position() is None
    follower.become_follower(led_by(1, 4), now_ms=NOW)
    expected = FetchPosition(fetch_offset=3, leader_epoch=4, last_fetched_epoch=3, log_start_offset=0)
    assert follower.fetch_position() == expected


def test_a_follower_with_nobody_to_follow_fetches_nothing() -> None:
    follower = replica(2)
    follower.become_follower(led_by(-1, 1), now_ms=NOW)
    assert (follower.is_follower, follower.fetch_position()) == (True, None)


def test_leaders_and_offline_replicas_fetch_nothing() -> None:
    leader, offline = replica(1), replica(2)
    elect(leader, offline, epoch=0)
    offline.go_offline()
    assert (leader.fetch_position(), offline.fetch_position()) == (None, None)


def test_a_follower_does_not_fetch_before_its_flush_is_done() -> None:
    """Fetching from an offset says that all below it is held; with flush.messages that means flushed."""
    leader, follower = replica(1), replica(2, LogConfig(flush_messages=1))
    elect(leader, follower, epoch=0)
    produce(leader, "a")
    read, _ = take(leader, fetch(2, 0))
    assert FlushWanted() in apply(follower, read)
    assert follower.fetch_position() is None
    flush = follower.log.start_flush()
    assert flush is not None
    flush.perform()
    follower.on_flushed(flush)
    assert fetch_of(follower).fetch_offset == 1


def test_what_a_crash_left_unflushed_is_flushed_before_the_first_fetch() -> None:
    follower = history(replica(2, LogConfig(flush_messages=1)), (0, "a"))
    assert FlushWanted() in follower.become_follower(led_by(1, 1), now_ms=NOW)


def test_records_are_taken_over_as_they_are() -> None:
    leader, follower = replica(1), replica(2)
    elect(leader, follower, epoch=3)
    produce(leader, "a", "b")
    read, _ = take(leader, fetch_of(follower))
    assert [event for event in apply(follower, read) if event != FlushWanted()] == [LogEndAdvanced(2)]
    assert follower.log.read(0, max_bytes=1 << 20, end_offset=2) == leader.log.read(0, max_bytes=1 << 20, end_offset=2)
    assert epochs_of(follower) == [3, 3]


def test_the_followers_watermark_stays_within_its_log() -> None:
    follower = history(replica(2), (0, "ab"))
    follower.become_follower(led_by(1, 1), now_ms=NOW)
    news = {"leader_log_start_offset": 0, "now_ms": NOW}
    assert follower.append_as_follower(b"", leader_high_watermark=9, **news) == [HighWatermarkAdvanced(2)]
    assert follower.append_as_follower(b"", leader_high_watermark=1, **news) == []
    assert follower.high_watermark == 2


def test_the_log_start_of_the_leader_is_followed_as_far_as_records_are_committed() -> None:
    follower = history(replica(2), (0, "abcd"))
    follower.become_follower(led_by(1, 1), now_ms=NOW)
    follower.append_as_follower(b"", leader_high_watermark=2, leader_log_start_offset=3, now_ms=NOW)
    assert (follower.log.log_start_offset, follower.high_watermark) == (2, 2)
    follower.append_as_follower(b"", leader_high_watermark=4, leader_log_start_offset=1, now_ms=NOW)
    assert follower.log.log_start_offset == 2
    follower.append_as_follower(b"", leader_high_watermark=4, leader_log_start_offset=3, now_ms=NOW)
    assert follower.log.log_start_offset == 3


def test_a_deletion_reaches_the_followers_and_the_low_watermark_follows() -> None:
    leader, second, third = replica(1), replica(2), replica(3)
    elect(leader, second, third, epoch=0)
    produce(leader, *"abcd")
    catch_up(leader, second, third)
    delete_records(leader, 3)
    catch_up(leader, second, third)
    assert [each.log.log_start_offset for each in (leader, second, third)] == [3, 3, 3]
    assert leader.low_watermark == 3


def test_records_that_do_not_continue_the_log_are_refused() -> None:
    leader, follower = history(replica(1), (0, "abc")), history(replica(2), (0, "ab"))
    follower.become_follower(led_by(1, 1), now_ms=NOW)
    data = leader.log.read(0, max_bytes=1 << 20, end_offset=3)

    def append() -> object:
        return follower.append_as_follower(data, leader_high_watermark=3, leader_log_start_offset=0, now_ms=NOW)

    assert refused(append) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (values(follower), follower.high_watermark) == ({0: "a", 1: "b"}, 0)


def test_a_leader_takes_over_nothing_and_cuts_nothing() -> None:
    """R08: an answer that comes after the election is not for it."""
    leader = history(replica(1), (0, "abc"))
    elect(leader, epoch=1)
    assert refused(
        lambda: leader.truncate_where_parted(EpochEndOffset(0, 0), leader_log_start_offset=0, now_ms=NOW)
    ) is (ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for call in (
        lambda: leader.reset_to(leader_log_start_offset=0, leader_log_end_offset=0, now_ms=NOW),
        lambda: leader.append_as_follower(b"", leader_high_watermark=3, leader_log_start_offset=0, now_ms=NOW),
    ):
        assert refused(call) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (leader.log.log_end_offset, leader.high_watermark) == (3, 0)
    leader.go_offline()
    assert refused(
        lambda: leader.truncate_where_parted(EpochEndOffset(0, 0), leader_log_start_offset=0, now_ms=NOW)
    ) is (ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ((-1, -1), 1),  # No epochs at the leader: the high watermark is all we have.
        ((-1, 3), 3),
        ((9, 3), 3),  # An epoch we do not know.
        ((5, 9), 6),
        ((5, 5), 5),
        ((2, 9), 4),
        ((2, 3), 3),
        ((3, 9), 4),  # We have another epoch there: cut it and ask again.
        ((3, 1), 4),
        ((0, 1), 1),
    ],
)
def test_how_much_of_a_log_is_kept(answer: tuple[int, int], kept: int) -> None:
    """KIP-279, from the side of a follower with epochs 0 (offsets 0, 1), 2 (2, 3) and 5 (4, 5)."""
    follower = history(replica(2, high_watermark=0), (0, "ab"), (2, "cd"), (5, "ef"))
    follower.high_watermark = 1
    follower.become_follower(led_by(1, 9), now_ms=NOW)
    events = follower.truncate_where_parted(EpochEndOffset(*answer), leader_log_start_offset=0, now_ms=NOW)
    assert follower.log.log_end_offset == kept
    assert [event for event in events if isinstance(event, LogTruncated)] == (
        [LogTruncated(6, kept)] if kept < 6 else []
    )


def test_logs_of_two_quick_elections_agree_after_several_rounds() -> None:
    """R03: neither knows the other's last epochs; each answer takes the follower one epoch back."""
    leader = history(replica(1), (0, "ab"), (2, "cd"), (5, "e"))
    follower = history(replica(2), (0, "ab"), (1, "xy"), (3, "z"), (4, "zz"))
    elect(leader, follower, epoch=6, isr=(1,))
    ends = []
    while True:
        read, _ = take(leader, fetch_of(follower))
        apply(follower, read)
        if read.diverging is None:
            break
        ends.append((read.diverging, follower.log.log_end_offset))
    assert ends == [
        (EpochEndOffset(2, 4), 4),  # Epoch 4, and with it 3: we have 1 where the leader has 2.
        (EpochEndOffset(0, 2), 2),
    ]
    assert values(follower) == values(leader) == dict(enumerate("abcde"))
    assert epochs_of(follower) == epochs_of(leader) == [0, 0, 2, 2, 5]


def test_an_uncommitted_tail_is_never_readable() -> None:
    """R06: the answer that shows the divergence carries a higher watermark, which would cover the tail."""
    old, new = history(replica(1), (0, "a"), (1, "xyz")), history(replica(2), (0, "a"), (2, "bcde"))
    elect(new, old, epoch=3, isr=(2,))
    assert new.high_watermark == 5
    seen = []
    for _ in range(4):
        replicate(new, old)
        seen.append((old.high_watermark, old.read(0, may_follow=True, **READER).records.count(b"x")))  # type: ignore[arg-type]
    assert seen[0] == (0, 0)
    assert [tail for _, tail in seen] == [0, 0, 0, 0]
    assert values(old, old.high_watermark) == dict(enumerate("abcde"))


def test_epochs_without_records_do_not_outlive_a_truncation() -> None:
    """R09: elections without data leave epochs that the leader never had; they go although there is nothing to cut."""
    leader, follower = history(replica(1), (0, "ab")), history(replica(2), (0, "ab"), (3, ""))
    assert follower.log.latest_leader_epoch == 3
    elect(leader, follower, epoch=4, isr=(1,))
    read, _ = take(leader, fetch_of(follower))
    assert read.diverging == EpochEndOffset(0, 2)
    assert not [event for event in apply(follower, read) if isinstance(event, LogTruncated)]
    assert (follower.log.latest_leader_epoch, follower.log.log_end_offset) == (0, 2)
    assert take(leader, fetch_of(follower))[0].diverging is None


def test_epoch_0_survives_a_truncation_to_the_end() -> None:
    """R09."""
    follower = history(replica(2), (0, "ab"))
    follower.become_follower(led_by(1, 1), now_ms=NOW)
    follower.truncate_where_parted(EpochEndOffset(0, 2), leader_log_start_offset=0, now_ms=NOW)
    assert follower.log.latest_leader_epoch == 0


def test_truncating_below_the_watermark_lowers_it() -> None:
    """After an unclean election."""
    old, new = history(replica(1, high_watermark=0), (0, "abc")), history(replica(2), (0, "a"), (1, "x"))
    old.high_watermark = 3
    elect(new, old, epoch=2, isr=(2,))
    replicate(new, old)
    assert (old.log.log_end_offset, old.high_watermark) == (1, 1)
    catch_up(new, old)
    assert values(old) == values(new) == {0: "a", 1: "x"}


def test_a_follower_left_behind_begins_anew_where_the_leader_begins() -> None:
    """R10: log start, watermark, epochs and producers go together."""
    leader, follower = history(replica(1), (0, "abcdef")), replica(2)
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0)
    builder.append(timestamp_ms=NOW, key=None, value=b"a")
    follower.log.append_as_leader(builder.build(), leader_epoch=0, now_ms=NOW)
    elect(leader, follower, epoch=1, isr=(1,))
    delete_records(leader, 4)
    assert refused(lambda: take(leader, fetch_of(follower))) is ErrorCode.OFFSET_OUT_OF_RANGE
    events = follower.reset_to(leader_log_start_offset=4, leader_log_end_offset=6, now_ms=NOW)
    assert LogTruncated(1, 4) in events
    log = follower.log
    assert (log.log_start_offset, follower.high_watermark, log.log_end_offset) == (4, 4, 4)
    assert (log.latest_leader_epoch, log.active_producers()) == (-1, [])
    catch_up(leader, follower)
    assert values(follower) == {4: "e", 5: "f"}


@pytest.mark.parametrize("tail", ["xyz", "xy"], ids=["beyond the leader's start", "up to the leader's start"])
def test_records_in_whose_place_the_leader_has_deleted_its_own_are_not_kept(tail: str) -> None:
    """A crash that takes the log start back would show them: they were never committed."""
    leader = history(replica(1), (0, "a"), (1, "bcd"))
    follower = history(replica(2, high_watermark=0), (0, "a" + tail))
    follower.high_watermark = 1
    elect(leader, follower, epoch=2, isr=(1,))
    delete_records(leader, 3)
    catch_up(leader, follower)
    assert (follower.log.log_start_offset, follower.log.segments[0].base_offset) == (3, 3)
    assert values(follower) == {3: "d"}


def test_a_deletion_of_all_there_is_leaves_the_followers_what_they_know_of_producers() -> None:
    leader, follower = replica(1), replica(2)
    elect(leader, follower, epoch=0, isr=(1, 2))
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0)
    builder.append(timestamp_ms=NOW, key=None, value=b"a")
    leader.append_as_leader(builder.build(), acks=Acks.LEADER, produce_version=9, now_ms=NOW)
    replicate(leader, follower)
    take(leader, fetch_of(follower))  # the answer that tells the new high watermark is lost
    delete_records(leader, 1)
    assert follower.high_watermark == 0
    catch_up(leader, follower)
    assert follower.log.log_start_offset == 1
    assert [one.producer_id for one in follower.log.active_producers()] == [7]


def test_a_follower_that_begins_inside_a_batch_and_meets_a_full_disk_is_not_committed_beyond_its_log() -> None:
    disk = SimulatedDisk()
    leader, follower = replica(1), replica(2, disk=disk)
    elect(leader, follower, epoch=1, isr=(1,))
    leader.append_as_leader(batch("a", "b" * 1000), acks=Acks.LEADER, produce_version=9, now_ms=NOW)
    delete_records(leader, 1)
    follower.reset_to(leader_log_start_offset=1, leader_log_end_offset=2, now_ms=NOW)
    disk.fill_up(after_bytes=1000)
    with pytest.raises(DiskFull):
        replicate(leader, follower)
    assert (follower.log.log_start_offset, follower.high_watermark, follower.log.log_end_offset) == (0, 0, 0)
    disk.free_up()
    follower.reset_to(leader_log_start_offset=1, leader_log_end_offset=2, now_ms=NOW)
    catch_up(leader, follower)
    assert values(follower) == {1: "b" * 1000}


def test_a_follower_ahead_of_a_leader_without_epochs_cuts_to_its_end() -> None:
    follower = history(replica(2), (0, "abcd"))
    follower.become_follower(led_by(1, 1), now_ms=NOW)
    follower.reset_to(leader_log_start_offset=0, leader_log_end_offset=2, now_ms=NOW)
    assert follower.log.log_end_offset == 2


def test_a_follower_within_the_leaders_range_just_goes_on() -> None:
    follower = history(replica(2), (0, "abcd"))
    follower.become_follower(led_by(1, 1), now_ms=NOW)
    follower.reset_to(leader_log_start_offset=3, leader_log_end_offset=9, now_ms=NOW)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (0, 4)


def test_with_epochs_becoming_a_follower_cuts_nothing() -> None:
    follower = history(replica(2, high_watermark=0), (0, "ab"))
    assert LeadershipChanged(1, is_leader=False) in follower.become_follower(led_by(1, 1), now_ms=NOW)
    assert follower.log.log_end_offset == 2


def test_the_labs_old_rule_cuts_to_the_watermark_and_compares_no_epochs() -> None:
    follower = history(replica(2, truncation=HIGH_WATERMARK), (0, "abc"))
    follower.high_watermark = 1
    events = follower.become_follower(led_by(1, 1), now_ms=NOW)
    assert LogTruncated(3, 1) in events
    expected = FetchPosition(fetch_offset=1, leader_epoch=1, last_fetched_epoch=-1, log_start_offset=0)
    assert follower.fetch_position() == expected
    assert follower.become_follower(led_by(1, 1, version=11), now_ms=NOW) == []


@pytest.mark.parametrize(("truncation", "survives"), [("leader-epoch", True), (HIGH_WATERMARK, False)])
def test_the_loss_that_leader_epochs_prevent(truncation: str, *, survives: bool) -> None:
    """R01: B holds m1 but has not heard that it is committed; it restarts, A dies before B's next fetch, B is elected."""
    a, b = replica(1, truncation=truncation), replica(2, truncation=truncation)
    elect(a, b, epoch=0, isr=(1, 2))
    produce(a, "m0", "m1", acks=Acks.ALL)
    replicate(a, b)
    take(a, fetch_of(b))
    assert a.is_settled(2, Acks.ALL)
    b = replica(2, truncation=truncation, log=b.log, high_watermark=1)
    b.become_follower(led_by(1, 1, isr=(1, 2)), now_ms=NOW)
    elect(b, a, epoch=2, isr=(2,))
    if not survives:
        assert values(b) == {0: "m0"}
        return
    catch_up(b, a)
    assert values(a) == values(b) == {0: "m0", 1: "m1"}


@pytest.mark.parametrize(("truncation", "is_one_truth"), [("leader-epoch", True), (HIGH_WATERMARK, False)])
def test_the_divergence_that_leader_epochs_prevent(truncation: str, *, is_one_truth: bool) -> None:
    """R02: A holds (m0, m1), B (m0); both die, B leads first and writes m2 where A has m1."""
    a = history(replica(1, truncation=truncation), (0, "01"))
    b = history(replica(2, truncation=truncation), (0, "0"))
    a.high_watermark, b.high_watermark = 2, 1
    b.become_leader(led_by(2, 1, isr=(2,)))
    produce(b, "2")
    a.become_follower(led_by(2, 1, isr=(2,)), now_ms=NOW)
    catch_up(b, a)
    assert (values(a) == values(b) == {0: "0", 1: "2"}) is is_one_truth
