"""Each checker speaks when its invariant is broken and is silent when not, told as hand-made sequences of snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import pytest

from tests.simulation.clusters import T0, Load, kills, make_topic
from tidelog.controller import PartitionState
from tidelog.model import TopicId, TopicPartition
from tidelog.simulation.checkers import (
    AcknowledgedStays,
    BoundsHold,
    Checker,
    CommittedNeverChanges,
    EqualBelowWatermark,
    InvariantBroken,
    IsrHasCommitted,
    OneHistoryPerEpoch,
    OneLeaderPerEpoch,
    all_checkers,
    check,
)
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.observer import ReplicaView, SeenLog, Snapshot, StoredBatch

ID, NEW_ID = UUID(int=1), UUID(int=2)


def batch(offset: int, epoch: int = 1, *, crc: int = 0, last: int | None = None) -> StoredBatch:
    return StoredBatch(offset, offset if last is None else last, epoch, crc or 1000 * epoch + offset)


def batches(*epochs: int) -> list[StoredBatch]:
    """One batch of one record after the other, each of the epoch named."""
    return [batch(offset, epoch) for offset, epoch in enumerate(epochs)]


class Logs:
    """Numbers logs as the observer does: the same log, with more at its end, keeps its number."""

    def __init__(self) -> None:
        self._count = 0

    def log(self, found: Iterable[StoredBatch]) -> SeenLog:
        self._count += 1
        return SeenLog(self._count, found)


LOGS = Logs()


def replica(
    broker_id: int,
    log: SeenLog | Sequence[StoredBatch],
    *,
    hw: int,
    epoch: int = 1,
    leads: bool = False,
    life: int = 1,
    start: int = 0,
    end: int | None = None,
    stable: int | None = None,
    topic_id: TopicId | None = ID,
    rewritable_below: int = 0,
) -> ReplicaView:
    seen = log if isinstance(log, SeenLog) else LOGS.log(log)
    found_end = seen.batches[-1].last_offset + 1 if seen.batches else start
    return ReplicaView(
        broker_id=broker_id,
        life=life,
        topic_partition=T0,
        topic_id=topic_id,
        is_leader=leads,
        leader_epoch=epoch,
        log_start_offset=start,
        log_end_offset=found_end if end is None else end,
        high_watermark=hw,
        last_stable_offset=hw if stable is None else stable,
        epochs=(),
        rewritable_below=rewritable_below,
        log=seen,
        batch_count=len(seen.batches),
    )


def state(
    leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), *, epoch: int = 1, partition_epoch: int = 0, topic_id: UUID = ID
) -> PartitionState:
    return PartitionState(
        topic_id=topic_id,
        assignment=(1, 2, 3),
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        partition_epoch=partition_epoch,
    )


def snapshot(*views: ReplicaView, registry: PartitionState | None = None) -> Snapshot:
    states: dict[TopicPartition, PartitionState] = {} if registry is None else {T0: registry}
    return Snapshot(now_ms=0.0, replicas={T0: views} if views else {}, states=states)


def heard(checker: Checker, *snapshots: Snapshot) -> list[str]:
    return [sentence for each in snapshots for sentence in checker.look(each)]


def says(checker: Checker, words: str, *snapshots: Snapshot) -> None:
    """Silent but for the last snapshot, of which it says this."""
    assert heard(checker, *snapshots[:-1]) == []
    found = heard(checker, snapshots[-1])
    assert found, "the checker is silent"
    assert words in found[0]


def may_lose(_: str) -> bool:
    return True


class TestI1AcknowledgedStays:
    def test_a_record_that_is_there_is_not_missed(self) -> None:
        promises = AcknowledgedStays()
        promises.acknowledge(T0, 3, b"x")
        assert list(promises.missing(T0, {3: b"x"})) == []

    @pytest.mark.parametrize("found", [{}, {3: b"y"}, {4: b"x"}])
    def test_a_record_that_is_gone_or_another_is_missed(self, found: dict[int, bytes]) -> None:
        promises = AcknowledgedStays()
        promises.acknowledge(T0, 3, b"x")
        assert len(list(promises.missing(T0, found))) == 1

    def test_a_second_promise_at_an_offset_does_not_excuse_the_first(self) -> None:
        promises = AcknowledgedStays()
        promises.acknowledge(T0, 3, b"x")
        promises.acknowledge(T0, 3, b"y")
        assert len(list(promises.missing(T0, {3: b"y"}))) == 1


class TestI2CommittedNeverChanges:
    def test_a_log_that_grows_is_silent(self) -> None:
        log = LOGS.log(batches(1, 1))
        first = snapshot(replica(1, log, hw=1, leads=True))
        log.batches.append(batch(2))
        assert heard(CommittedNeverChanges(), first, snapshot(replica(1, log, hw=3, leads=True))) == []

    def test_a_high_watermark_that_goes_back_in_a_reign_is_told(self) -> None:
        log = LOGS.log(batches(1, 1))
        says(
            CommittedNeverChanges(),
            "went from 2 to 1",
            snapshot(replica(1, log, hw=2, leads=True)),
            snapshot(replica(1, log, hw=1, leads=True)),
        )

    def test_a_high_watermark_may_be_lower_in_a_new_reign_and_in_a_new_life(self) -> None:
        log = batches(1, 1)
        assert (
            heard(
                CommittedNeverChanges(),
                snapshot(replica(1, log, hw=2, leads=True)),
                snapshot(replica(1, log, hw=0, leads=True, life=2)),
                snapshot(replica(2, log, hw=1, leads=True, epoch=2)),
            )
            == []
        )

    def test_a_committed_batch_that_another_leader_shows_otherwise_is_told(self) -> None:
        says(
            CommittedNeverChanges(),
            "was committed",
            snapshot(replica(1, batches(1, 1), hw=2, leads=True)),
            snapshot(replica(2, batches(1, 2), hw=2, leads=True, epoch=2)),
        )

    def test_a_change_after_a_cut_is_told_although_the_log_was_compared_before(self) -> None:
        says(
            CommittedNeverChanges(),
            "was committed",
            snapshot(replica(1, batches(1, 1, 1), hw=3, leads=True)),
            snapshot(replica(1, batches(1, 1, 2), hw=3, leads=True, epoch=2)),
        )

    def test_what_was_not_committed_may_change(self) -> None:
        assert (
            heard(
                CommittedNeverChanges(),
                snapshot(replica(1, batches(1, 1), hw=1, leads=True)),
                snapshot(replica(2, batches(1, 2), hw=2, leads=True, epoch=2)),
            )
            == []
        )

    def test_a_later_leader_whose_log_ends_before_what_was_committed_is_told(self) -> None:
        says(
            CommittedNeverChanges(),
            "committed up to 2",
            snapshot(replica(1, batches(1, 1), hw=2, leads=True)),
            snapshot(replica(2, batches(1), hw=1, leads=True, epoch=2)),
        )

    def test_a_zombie_may_end_before_what_a_later_leader_committed(self) -> None:
        zombie = replica(1, batches(1), hw=1, leads=True)
        assert (
            heard(
                CommittedNeverChanges(),
                snapshot(zombie),
                snapshot(zombie, replica(2, batches(1, 2, 2), hw=3, leads=True, epoch=2)),
                snapshot(replica(1, batches(1), hw=1, leads=True, life=2)),
            )
            == []
        )

    def test_a_topic_of_another_id_has_its_own_batches(self) -> None:
        assert (
            heard(
                CommittedNeverChanges(),
                snapshot(replica(1, batches(1, 1), hw=2, leads=True)),
                snapshot(replica(1, [batch(0, crc=7)], hw=1, leads=True, topic_id=NEW_ID)),
            )
            == []
        )

    def test_a_log_start_that_moved_hides_nothing_of_what_is_left(self) -> None:
        says(
            CommittedNeverChanges(),
            "was committed",
            snapshot(replica(1, batches(1, 1, 1), hw=3, leads=True)),
            snapshot(replica(2, [batch(2, 2)], hw=3, leads=True, epoch=2, start=2)),
        )

    def test_unclean_elections_may_change_and_lose_what_was_committed_but_not_turn_a_watermark_back(self) -> None:
        checker = CommittedNeverChanges(may_lose)
        log = LOGS.log(batches(2))
        says(
            checker,
            "went from 1 to 0",
            snapshot(replica(1, batches(1, 1), hw=2, leads=True)),
            snapshot(replica(2, log, hw=1, leads=True, epoch=2)),
            snapshot(replica(2, log, hw=0, leads=True, epoch=2)),
        )

    def test_compaction_may_empty_a_batch_and_take_one_away_but_not_change_who_wrote_it(self) -> None:
        before = [batch(0, last=4), batch(5), batch(6)]
        emptied = [before[0]._replace(crc=1), batch(6)]
        changed = [before[0]._replace(crc=1, producer_id=9), batch(6)]
        first = snapshot(replica(1, before, hw=7, leads=True))
        after = snapshot(replica(1, emptied, hw=7, leads=True, life=2, rewritable_below=6))
        assert heard(CommittedNeverChanges(), first, after) == []
        broken = snapshot(replica(1, changed, hw=7, leads=True, life=2, rewritable_below=6))
        says(CommittedNeverChanges(), "was committed", first, broken)
        uncompacted = snapshot(replica(1, emptied, hw=7, leads=True, life=2))
        says(CommittedNeverChanges(), "was committed", first, uncompacted)


class TestI3EqualBelowWatermark:
    def test_equal_logs_are_silent_as_they_grow_and_differ_only_above(self) -> None:
        one, other = LOGS.log(batches(1, 1)), LOGS.log(batches(1))
        checker = EqualBelowWatermark()
        assert heard(checker, snapshot(replica(1, one, hw=2), replica(2, other, hw=1))) == []
        one.batches.append(batch(2))
        other.batches.extend([batch(1), batch(2, 2)])
        assert heard(checker, snapshot(replica(1, one, hw=3), replica(2, other, hw=2))) == []

    def test_a_difference_that_comes_later_is_told(self) -> None:
        one, other = LOGS.log(batches(1)), LOGS.log(batches(1))
        first = snapshot(replica(1, one, hw=1), replica(2, other, hw=1))
        checker = EqualBelowWatermark()
        assert heard(checker, first) == []
        one.batches.append(batch(1))
        other.batches.append(batch(1, 2))
        says(checker, "broker 1", snapshot(replica(1, one, hw=2), replica(2, other, hw=2)))

    def test_a_batch_that_one_lacks_in_the_middle_is_told(self) -> None:
        whole, holed = batches(1, 1, 1), [batch(0), batch(2)]
        says(EqualBelowWatermark(), "below 3", snapshot(replica(1, whole, hw=3), replica(2, holed, hw=3)))

    def test_a_batch_that_one_lacks_at_the_end_is_told(self) -> None:
        views = (replica(1, batches(1, 1), hw=2), replica(2, batches(1), hw=2, end=2))
        says(EqualBelowWatermark(), "below 2", snapshot(*views))

    def test_a_log_that_was_cut_or_opened_again_is_compared_from_its_start(self) -> None:
        one = LOGS.log(batches(1, 1))
        says(
            EqualBelowWatermark(),
            "has StoredBatch",
            snapshot(replica(1, one, hw=2), replica(2, batches(1, 1), hw=2)),
            snapshot(replica(1, one, hw=2), replica(2, batches(2, 1), hw=2, life=2)),
        )

    def test_only_what_lies_above_both_log_starts_is_compared(self) -> None:
        views = (replica(1, [batch(2)], hw=3, start=2), replica(2, [batch(0, 2), batch(2)], hw=3))
        assert heard(EqualBelowWatermark(), snapshot(*views)) == []
        views = (replica(1, [batch(2)], hw=3, start=2), replica(2, [batch(0, 2), batch(2, 2)], hw=3))
        says(EqualBelowWatermark(), "broker 1", snapshot(*views))

    def test_a_follower_that_comes_from_below_the_other_log_start_is_compared_from_there(self) -> None:
        late = LOGS.log(batches(1))
        early = replica(1, [batch(2), batch(3)], hw=4, start=2)
        checker = EqualBelowWatermark()
        assert heard(checker, snapshot(early, replica(2, late, hw=1))) == []
        late.batches.extend([batch(1), batch(2)])
        assert heard(checker, snapshot(early, replica(2, late, hw=3))) == []
        late.batches.append(batch(3, 2))
        says(checker, "broker 1", snapshot(early, replica(2, late, hw=4)))

    def test_replicas_of_two_topics_of_one_name_are_not_compared(self) -> None:
        views = (replica(1, batches(1), hw=1), replica(2, batches(2), hw=1, topic_id=NEW_ID))
        assert heard(EqualBelowWatermark(), snapshot(*views)) == []

    def test_rot_is_nobodys_fault(self) -> None:
        rotten = LOGS.log(batches(2))
        rotten.is_rotten = True
        assert heard(EqualBelowWatermark(), snapshot(replica(1, batches(1), hw=1), replica(2, rotten, hw=1))) == []

    def test_after_an_unclean_election_logs_are_compared_once_they_copy_one_leader(self) -> None:
        leader, behind = replica(2, batches(1, 3), hw=2, leads=True), replica(1, batches(1, 1), hw=2)
        assert heard(EqualBelowWatermark(may_lose), snapshot(leader, behind)) == []
        says(EqualBelowWatermark(), "broker 2", snapshot(leader, behind))
        wrong = replica(1, batches(2, 3), hw=2)
        says(EqualBelowWatermark(may_lose), "broker 2", snapshot(leader, wrong))

    def test_either_may_be_compacted_below_its_active_segment_only(self) -> None:
        whole = batches(1, 1, 1, 1)
        emptied = [whole[1]._replace(crc=1), whole[3]]
        views = (replica(1, whole, hw=4), replica(2, emptied, hw=4, rewritable_below=3))
        assert heard(EqualBelowWatermark(), snapshot(*views)) == []
        assert heard(EqualBelowWatermark(), snapshot(*reversed(views))) == []
        views = (replica(1, whole, hw=4), replica(2, emptied, hw=4, rewritable_below=2))
        says(EqualBelowWatermark(), "below 4", snapshot(*views))


class TestI4BoundsHold:
    def test_offsets_in_order_are_silent(self) -> None:
        assert heard(BoundsHold(), snapshot(replica(1, batches(1, 1, 1), hw=2, stable=1, start=1))) == []

    @pytest.mark.parametrize(
        "view",
        [
            replica(1, batches(1), hw=2),
            replica(1, batches(1, 1), hw=1, stable=2),
            replica(1, batches(1, 1), hw=2, stable=0, start=1),
        ],
    )
    def test_offsets_out_of_order_are_told(self, view: ReplicaView) -> None:
        says(BoundsHold(), "log start", snapshot(replica(1, batches(1, 1), hw=1)), snapshot(view))


class TestI5IsrHasCommitted:
    def test_members_that_hold_what_is_committed_are_silent(self) -> None:
        views = (replica(1, batches(1, 1, 1), hw=2, leads=True), replica(2, batches(1, 1), hw=0))
        assert heard(IsrHasCommitted(), snapshot(*views, registry=state())) == []

    def test_a_member_that_lacks_a_committed_batch_is_told(self) -> None:
        leader, member = LOGS.log(batches(1)), LOGS.log(batches(1))
        first = snapshot(replica(1, leader, hw=1, leads=True), replica(2, member, hw=1), registry=state())
        checker = IsrHasCommitted()
        assert heard(checker, first) == []
        leader.batches.append(batch(1))
        views = (replica(1, leader, hw=2, leads=True), replica(2, member, hw=1))
        says(checker, "in the ISR", snapshot(*views, registry=state()))

    def test_who_is_not_in_the_isr_may_lack_it_until_the_registry_says_otherwise(self) -> None:
        views = (replica(1, batches(1, 1), hw=2, leads=True), replica(2, batches(1), hw=1))
        without = Snapshot(now_ms=0.0, replicas={T0: views}, states={T0: state(isr=(1, 3))})
        with_it = Snapshot(now_ms=1.0, replicas=without.replicas, states={T0: state(isr=(1, 2, 3), partition_epoch=1)})
        says(IsrHasCommitted(), "in the ISR", without, with_it)

    def test_a_member_that_came_back_with_less_is_told(self) -> None:
        leader = LOGS.log(batches(1, 1))
        says(
            IsrHasCommitted(),
            "in the ISR",
            snapshot(replica(1, leader, hw=2, leads=True), replica(2, batches(1, 1), hw=2), registry=state()),
            snapshot(replica(1, leader, hw=2, leads=True), replica(2, batches(1), hw=1, life=2), registry=state()),
        )

    def test_a_member_need_not_hold_what_lies_below_its_log_start(self) -> None:
        views = (replica(1, batches(1, 1), hw=2, leads=True), replica(2, [batch(1)], hw=2, start=1))
        assert heard(IsrHasCommitted(), snapshot(*views, registry=state())) == []

    def test_a_leader_of_a_topic_that_was_made_again_is_not_asked(self) -> None:
        views = (replica(1, batches(1, 1), hw=2, leads=True), replica(2, [], hw=0, topic_id=NEW_ID))
        assert heard(IsrHasCommitted(), snapshot(*views, registry=state(topic_id=NEW_ID))) == []

    def test_a_zombie_counts_unless_elections_may_be_unclean(self) -> None:
        zombie = replica(1, batches(1, 1), hw=2, leads=True)
        views = (zombie, replica(2, batches(1, 2), hw=1, leads=True, epoch=2))
        after = snapshot(*views, registry=state(leader=2, isr=(2,), epoch=2))
        says(IsrHasCommitted(), "broker 1", after)
        assert heard(IsrHasCommitted(may_lose), after) == []

    def test_the_leader_in_force_counts_also_where_elections_may_be_unclean(self) -> None:
        views = (replica(1, batches(1, 1), hw=2, leads=True), replica(2, batches(1), hw=1))
        says(IsrHasCommitted(may_lose), "in the ISR", snapshot(*views, registry=state()))


class TestI6OneLeaderPerEpoch:
    def test_leaders_of_different_epochs_are_silent(self) -> None:
        views = (replica(1, [], hw=0, leads=True), replica(2, [], hw=0, leads=True, epoch=2))
        assert heard(OneLeaderPerEpoch(), snapshot(*views, registry=state(leader=2, epoch=2))) == []

    def test_two_leaders_of_one_epoch_are_told_also_one_after_the_other(self) -> None:
        one, other = replica(1, [], hw=0, leads=True), replica(2, [], hw=0, leads=True)
        says(OneLeaderPerEpoch(), "both lead", snapshot(one, other))
        says(OneLeaderPerEpoch(), "both lead", snapshot(one), snapshot(other))

    def test_a_leader_that_the_registry_does_not_know_is_told(self) -> None:
        says(OneLeaderPerEpoch(), "both lead", snapshot(replica(1, [], hw=0, leads=True), registry=state(leader=2)))

    def test_an_epoch_that_goes_back_or_changes_hands_in_the_registry_is_told(self) -> None:
        says(OneLeaderPerEpoch(), "back", snapshot(registry=state(epoch=2)), snapshot(registry=state(epoch=1)))
        two = (snapshot(registry=state(partition_epoch=5)), snapshot(registry=state(partition_epoch=4)))
        says(OneLeaderPerEpoch(), "back", *two)
        says(OneLeaderPerEpoch(), "was broker 1's", snapshot(registry=state()), snapshot(registry=state(leader=2)))

    def test_a_topic_that_was_made_again_begins_anew(self) -> None:
        before = snapshot(replica(1, [], hw=0, leads=True, epoch=2), registry=state(epoch=2, partition_epoch=9))
        after = snapshot(
            replica(2, [], hw=0, leads=True, epoch=2, topic_id=NEW_ID),
            registry=state(leader=2, epoch=2, topic_id=NEW_ID),
        )
        assert heard(OneLeaderPerEpoch(), before, after) == []


class TestOneHistoryPerEpoch:
    def test_copies_of_one_log_of_any_length_are_silent(self) -> None:
        views = (
            replica(1, batches(1, 1, 2), hw=0),
            replica(2, batches(1, 1), hw=0),
            replica(3, [batch(1)], hw=1, start=1),
        )
        assert heard(OneHistoryPerEpoch(), snapshot(*views)) == []

    def test_a_batch_that_was_lost_and_whose_offset_is_used_in_a_new_epoch_is_silent(self) -> None:
        before, after = snapshot(replica(1, batches(1, 1), hw=0)), snapshot(replica(1, batches(1, 2), hw=0, life=2))
        assert heard(OneHistoryPerEpoch(), before, after) == []

    def test_another_batch_of_the_same_epoch_and_offset_is_told_in_any_life_committed_or_not(self) -> None:
        before = snapshot(replica(1, batches(1, 1), hw=0))
        after = snapshot(replica(1, [batch(0), batch(1, crc=7)], hw=0, life=2))
        says(OneHistoryPerEpoch(), "(1, 1) was", before, after)

    def test_a_zombie_that_writes_on_is_told_when_the_offset_is_the_same(self) -> None:
        zombie, log = replica(1, [batch(0), batch(1, crc=7)], hw=0), batches(1, 1)
        says(OneHistoryPerEpoch(), "(1, 1) was", snapshot(replica(2, log, hw=0)), snapshot(zombie))

    def test_two_histories_before_one_batch_are_told(self) -> None:
        says(
            OneHistoryPerEpoch(),
            "before (epoch, offset) (3, 2)",
            snapshot(replica(1, batches(1, 1, 3), hw=0), replica(2, batches(1, 2, 3), hw=0)),
        )

    def test_a_batch_lost_in_the_middle_is_told_in_a_log_that_grows(self) -> None:
        log = LOGS.log(batches(1))
        first = snapshot(replica(1, batches(1, 1, 1), hw=0), replica(2, log, hw=0))
        checker = OneHistoryPerEpoch()
        assert heard(checker, first) == []
        log.batches.append(batch(2))
        says(checker, "before (epoch, offset) (1, 2)", snapshot(replica(2, log, hw=0)))

    def test_a_history_that_a_short_log_could_not_tell_is_learned_from_the_next(self) -> None:
        says(
            OneHistoryPerEpoch(),
            "before (epoch, offset) (1, 2)",
            snapshot(replica(3, [batch(2)], hw=2, start=2)),
            snapshot(replica(1, batches(1, 1, 1), hw=0)),
            snapshot(replica(2, batches(1, 0, 1), hw=0)),
        )

    def test_a_topic_that_was_made_again_has_another_history(self) -> None:
        before = snapshot(replica(1, batches(1), hw=0))
        assert heard(OneHistoryPerEpoch(), before, snapshot(replica(1, [batch(0, crc=7)], hw=0, topic_id=NEW_ID))) == []

    def test_compaction_may_take_away_but_not_change(self) -> None:
        whole = batches(1, 1, 1, 1)
        compacted = [whole[1]._replace(crc=1), whole[3]]
        before = snapshot(replica(1, whole, hw=4))
        after = snapshot(replica(1, compacted, hw=4, life=2, rewritable_below=3))
        assert heard(OneHistoryPerEpoch(), before, after) == []
        changed = [whole[1]._replace(crc=1, last_offset=2), whole[3]]
        broken = snapshot(replica(1, changed, hw=4, life=2, rewritable_below=3))
        says(OneHistoryPerEpoch(), "(1, 1) was", before, broken)


def test_the_first_thing_broken_is_raised_with_its_checker() -> None:
    with pytest.raises(InvariantBroken, match="I4 bounds hold") as broken:
        check(all_checkers(), snapshot(replica(1, batches(1), hw=2)))
    assert broken.value.checker == "I4 bounds hold"


class TestLookingAtARunningCluster:
    @pytest.mark.slow
    def test_what_did_not_change_is_the_same_object_and_what_did_is_seen(self) -> None:
        with SimulatedCluster(1, brokers=3) as cluster:
            make_topic(cluster, (1, 2, 3))
            first, second = cluster.snapshot(), cluster.snapshot()
            assert second.replicas is first.replicas
            assert second.states is first.states
            load = Load(cluster)
            load.until_more(10)
            load.stop()
            third = cluster.snapshot()
            assert third.replicas[T0] is not first.replicas[T0]
            leader = cluster.replica(1, T0)
            assert leader is third.replicas[T0][0]
            assert leader is not None
            assert leader.batches[-1].last_offset + 1 == leader.log_end_offset
            assert leader.below(leader.log_end_offset) == leader.batches

    @kills
    @pytest.mark.slow
    def test_a_new_life_and_a_cut_log_are_read_anew(self) -> None:
        with SimulatedCluster(1, brokers=3) as cluster:
            make_topic(cluster, (1, 2, 3))
            load = Load(cluster)
            load.until_more(10)
            before = cluster.replica(3, T0)
            cluster.brokers[3].bounce()
            cluster.until(lambda: cluster.replica(3, T0) is not None, "broker 3 has opened its log")
            after = cluster.replica(3, T0)
            assert before is not None
            assert after is not None
            assert after.log.number != before.log.number
            assert after.batches[: len(before.batches)] == before.batches
            log = cluster.brokers[3].partitions()[0].log
            log.truncate_to(log.log_end_offset - 1)
            cut = cluster.replica(3, T0)
            assert cut is not None
            assert cut.log.number != after.log.number
            assert cut.batches[-1].last_offset + 1 == log.log_end_offset
            load.stop()

    @pytest.mark.slow
    def test_looking_meets_no_fault_and_uses_none_up(self) -> None:
        with SimulatedCluster(1, brokers=3) as cluster:
            make_topic(cluster, (1, 2, 3))
            disk = cluster.brokers[2].node.disk
            load = Load(cluster)
            load.until_more(10)
            load.stop()
            disk.faults.fail("read", path="*.log", times=1)
            assert cluster.replica(2, T0) is not None
            cluster.look()
            assert disk.faults.injected == 0
            disk.faults.heal()

    @pytest.mark.slow
    def test_a_log_with_a_bit_turned_is_known_to_be_rotten(self) -> None:
        with SimulatedCluster(1, brokers=3) as cluster:
            make_topic(cluster, (1, 2, 3))
            load = Load(cluster)
            load.until_more(10)
            log = cluster.brokers[2].partitions()[0].log
            cluster.brokers[2].node.disk.flip_bit(f"{log.directory}/00000000000000000000.log", position=70)
            load.until_more(10)
            load.stop()
            rotten, sound = cluster.replica(2, T0), cluster.replica(3, T0)
            assert rotten is not None
            assert sound is not None
            assert rotten.log.is_rotten
            assert not sound.log.is_rotten


def test_a_file_is_rotten_until_it_is_cut_where_a_bit_has_turned() -> None:
    disk = SimulatedDisk()
    disk.open("/file", create=True).pwrite(0, [b"0123456789"])
    disk.flip_bit("/file", position=5)
    file = disk.peek("/file")
    assert file is not None
    disk.open("/file").truncate(6)
    assert file.is_rotten
    disk.open("/file").truncate(5)
    assert not file.is_rotten
