"""Every checker can speak: each is shown what it guards against, and something much like it that is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.simulation.views import P0, TOPIC_ID, batch, numbered, seen, snapshot, view
from tidelog.controller import PartitionState, layout
from tidelog.model import Offset, TopicPartition
from tidelog.registry import Create, Set
from tidelog.registry.memory import MemoryTree
from tidelog.simulation.checkers import (
    AcknowledgedStayed,
    Checker,
    DeliveredOnce,
    EndChecker,
    NoHoles,
    NothingReadVanishes,
    ReadersSkipNothing,
    ReadersSkippedNothing,
    RecoveryInventsNothing,
    ResourcesBounded,
    SequencesContiguous,
    ZombiesChangeNothing,
)
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.checkers.resources_bounded import UNDER_LOAD, WHEN_QUIET, Usage, excesses
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.observer import ReplicaView, StoredBatch
from tidelog.simulation.workloads import History


def says(checker: Checker, *moments: ReplicaView) -> list[str]:
    """What a checker says after it was shown one replica again and again."""
    return [sentence for one in moments for sentence in checker.look(snapshot(one))]


# No holes.


def test_offsets_that_follow_each_other_have_no_holes() -> None:
    assert not says(NoHoles(), view([batch(0, 3), batch(4), batch(5, 9)]), view([batch(4), batch(5)], start=4))


def test_a_hole_between_two_batches_is_found() -> None:
    assert "followed by" in says(NoHoles(), view([batch(0, 3), batch(5)]))[0]


def test_a_hole_that_comes_later_is_found_where_the_last_look_ended() -> None:
    checker, log = NoHoles(), seen([batch(0)])
    assert not says(checker, view(log=log))
    log.batches += [batch(2)]
    assert len(says(checker, view(log=log))) == 1


def test_a_log_that_lacks_its_beginning_or_its_end_has_a_hole() -> None:
    assert "its first batch" in says(NoHoles(), view([batch(5)], start=3))[0]
    assert "its last batch" in says(NoHoles(), view([batch(0)], end=2))[0]
    assert "holds nothing" in says(NoHoles(), view([], end=2))[0]


def test_a_log_may_begin_in_the_middle_of_a_batch_and_compaction_may_make_holes() -> None:
    assert not says(NoHoles(), view([batch(3, 7)], start=5), view([batch(0), batch(9)], rewritable_below=5))


# Sequences.


def test_sequences_that_go_on_and_epochs_that_begin_anew_are_contiguous() -> None:
    batches = [numbered(0, 0, size=3), numbered(3, 0, producer_id=2), numbered(4, 3), numbered(5, 0, producer_epoch=1)]
    assert not says(SequencesContiguous(), view(batches))


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([numbered(0, 0), numbered(1, 0)], "a duplicate"),
        ([numbered(0, 0), numbered(1, 2)], "a gap"),
        ([numbered(0, 0, size=3), numbered(3, 2)], "an overlap"),
        ([numbered(0, 4)], "a first batch that is not the first"),
        ([numbered(0, 0), numbered(1, 1, producer_epoch=1)], "an epoch that does not begin at 0"),
        ([numbered(0, 0, producer_epoch=1), numbered(1, 0)], "an epoch that was over"),
    ],
)
def test_sequences_that_do_not_follow_are_found(batches: list[StoredBatch], why: str) -> None:
    assert len(says(SequencesContiguous(), view(batches))) == 1, why


def test_a_duplicate_that_comes_later_is_found_where_the_last_look_ended() -> None:
    checker, log = SequencesContiguous(), seen([numbered(0, 0)])
    assert not says(checker, view(log=log))
    log.batches += [numbered(1, 0)]
    assert len(says(checker, view(log=log))) == 1


def test_a_producer_whose_beginning_was_deleted_may_begin_with_any_number() -> None:
    assert not says(SequencesContiguous(), view([numbered(5, 9), numbered(6, 10)]))


def test_after_the_largest_sequence_comes_zero() -> None:
    assert not says(SequencesContiguous(), view([numbered(5, 2**31 - 1), numbered(6, 0)]))


# Recovery.


def test_recovery_may_lose_a_tail_and_the_new_life_may_write() -> None:
    before = view([batch(0), batch(1)], leader_epoch=3)
    after = view([batch(0), batch(1, crc=9, epoch=4)], life=2)
    fetched = view([batch(0), batch(1)], broker_id=2)
    checker = RecoveryInventsNothing()
    assert not list(checker.look(snapshot(before, fetched)))
    assert not list(checker.look(snapshot(view([batch(0)], life=2), fetched)))
    assert not list(checker.look(snapshot(after, fetched))), "only the first view of a life is compared"
    assert not says(RecoveryInventsNothing(), view([batch(0)]), view([batch(0), batch(1)], life=2)), "since the look"


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ([batch(0, crc=1), batch(1)], "another batch in its place"),
        ([batch(0), batch(1), batch(2, epoch=2)], "what was cut away in epoch 3 is back"),
    ],
)
def test_recovery_that_invents_is_found(after: list[StoredBatch], why: str) -> None:
    former = view([batch(0), batch(1)], leader_epoch=3)
    assert len(says(RecoveryInventsNothing(), former, view(after, life=2, leader_epoch=3))) == 1, why


def test_an_unclean_leader_on_an_empty_disk_may_have_written_already() -> None:
    former = view([batch(0), batch(1)], leader_epoch=1)
    began = [batch(0, epoch=2)]
    assert not says(RecoveryInventsNothing(), former, view(began, life=2, leader_epoch=2, is_leader=True))
    assert says(RecoveryInventsNothing(), former, view(began, life=2, leader_epoch=2)), (
        "a follower writes nothing of its own"
    )


def test_recovery_may_hold_what_it_has_fetched_already() -> None:
    checker, other = RecoveryInventsNothing(), view([batch(0), batch(1), batch(2, epoch=2)], broker_id=2)
    assert not list(checker.look(snapshot(view([batch(0), batch(1)], leader_epoch=3), other)))
    assert not list(checker.look(snapshot(view([batch(0), batch(1), batch(2, epoch=2)], life=2), other)))


# Zombies.


class Registry:
    """A tree with one partition, written as controllers and brokers write it."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self._session = self.tree.open_session()
        for path in ("/brokers", layout.TOPICS, "/brokers/topics/safe", "/brokers/topics/safe/partitions"):
            self.write(path, b"")
        for path in ("/brokers/topics/safe/partitions/0", "/tidelog", layout.INCARNATIONS, layout.BROKER_IDS):
            self.write(path, b"")

    def write(self, path: str, data: bytes) -> None:
        operation = Create(path, data) if self.tree.peek(path) is None else Set(path, data)
        self.tree.multi([operation], session_id=self._session)

    def write_state(self, controller_epoch: int, *, leader: int = 1) -> None:
        state = PartitionState(
            topic_id=TOPIC_ID, assignment=(1, 2), leader=leader, leader_epoch=0, isr=(1, 2), partition_epoch=0
        )
        self.write(layout.state_path("safe", 0), layout.encode_state(state, controller_epoch))

    def write_controller_epoch(self, controller_epoch: int) -> None:
        self.write(layout.CONTROLLER_EPOCH, b"%d" % controller_epoch)


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.write_controller_epoch(1)
    registry.write_state(1)
    return registry


def test_a_state_of_the_controller_in_force_is_no_zombie_s(registry: Registry) -> None:
    checker = ZombiesChangeNothing(registry.tree)
    assert not list(checker.look(snapshot()))
    registry.write_controller_epoch(2)
    assert not list(checker.look(snapshot())), "what was written before stays"
    registry.write_state(2)
    assert not list(checker.look(snapshot()))


def test_a_state_that_a_deposed_controller_writes_is_found(registry: Registry) -> None:
    checker = ZombiesChangeNothing(registry.tree)
    registry.write_controller_epoch(2)
    assert not list(checker.look(snapshot()))
    registry.write_state(1, leader=2)
    assert "when 2 was in force" in next(iter(checker.look(snapshot())))


def test_numbers_that_only_go_up_are_found_when_they_go_back(registry: Registry) -> None:
    checker = ZombiesChangeNothing(registry.tree)
    registry.write(layout.PRODUCER_ID_BLOCK, layout.encode_producer_id_block(1, range(1000, 2000)))
    registry.write(layout.incarnation_path(1), layout.encode_incarnation(layout.LastRegistration(8)))
    assert not list(checker.look(snapshot()))
    registry.write(layout.PRODUCER_ID_BLOCK, layout.encode_producer_id_block(2, range(1000)))
    registry.write(layout.incarnation_path(1), layout.encode_incarnation(layout.LastRegistration(5)))
    registry.write_controller_epoch(0)
    assert len(list(checker.look(snapshot()))) == 3


# Bounds.


def test_what_a_node_holds_is_bounded() -> None:
    fine = Usage("broker-1", tasks=200, connections=100, files=60, segments=5)
    leaking = fine._replace(tasks=400, connections=400, files=UNDER_LOAD.files + UNDER_LOAD.files_per_segment * 5 + 1)
    assert not list(ResourcesBounded(lambda: [fine], lambda: 50).look(snapshot()))
    assert len(list(ResourcesBounded(lambda: [fine, leaking], lambda: 50_000).look(snapshot()))) == 4
    assert list(excesses(fine, WHEN_QUIET)), "what is fine under load is too much afterwards"


# The end.


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    cluster = SimulatedCluster()
    yield cluster
    cluster.world.loop.close()


class End:
    """An ending in the making: one history, and the logs of brokers 1 and 2."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.history = History()
        self._cluster = cluster

    def verdict(
        self, checker: EndChecker, log: Mapping[Offset, bytes], other: Mapping[Offset, bytes] | None = None
    ) -> list[str]:
        """What a checker says if broker 1 and consumers have the one log, and broker 2 the other."""
        contents = {(1, P0): log, (2, P0): log if other is None else other}
        ending = Ending(
            history=self.history,
            snapshot=snapshot(),
            contents=contents,
            consumed={P0: log},
            cluster=self._cluster,
        )
        return list(checker.verdict(ending))


@pytest.fixture
def end(cluster: SimulatedCluster) -> End:
    return End(cluster)


def test_promises_that_are_kept_are_kept_on_every_replica(end: End) -> None:
    end.history.acknowledge(P0, 0, b"p/0", producer="p", is_promised=True)
    end.history.acknowledge(P0, 1, b"p/1", producer="p", is_promised=False)
    assert not end.verdict(AcknowledgedStayed(), {0: b"p/0"})
    assert len(end.verdict(AcknowledgedStayed(), {0: b"p/0"}, {})) == 1
    assert len(end.verdict(AcknowledgedStayed(), {0: b"p/9"}, {0: b"p/0"})) == 2, "broker 1 and a consumer"


def test_promises_end_with_the_deletion_of_records_and_topics(end: End) -> None:
    end.history.acknowledge(P0, 0, b"p/0", producer="p", is_promised=True)
    end.history.acknowledge(TopicPartition("churn-1", 0), 0, b"p/1", producer="p", is_promised=True)
    end.history.ask_deletion(P0, 1)
    assert "is not there any more" in end.verdict(AcknowledgedStayed(), {})[0]
    end.history.forget("churn-1")
    assert not end.verdict(AcknowledgedStayed(), {})
    assert end.history.acknowledged_count == 2


def test_idempotent_values_are_there_once_and_in_order(end: End) -> None:
    end.history.number("p")
    assert not end.verdict(DeliveredOnce(), {0: b"p/0", 1: b"q/7", 2: b"p/2", 3: b"q/7"})
    assert "a second time" in end.verdict(DeliveredOnce(), {0: b"p/0", 1: b"p/0"})[0]
    assert "comes after" in end.verdict(DeliveredOnce(), {0: b"p/2", 1: b"p/1"})[0]


def test_what_was_read_stays(end: End) -> None:
    end.history.read("r", P0, 0, b"p/0")
    end.history.read("r", TopicPartition("unclean", 0), 0, b"p/8")
    assert not end.verdict(NothingReadVanishes(), {0: b"p/0"})
    assert len(end.verdict(NothingReadVanishes(), {0: b"p/0"}, {0: b"p/1"})) == 1
    end.history.ask_deletion(P0, 1)
    assert not end.verdict(NothingReadVanishes(), {})


@pytest.mark.parametrize(
    ("offsets", "deleted_before", "is_fine"),
    [
        ((0, 1, 2), 0, True),
        ((0, 2), 0, False),
        ((0, 1, 1), 0, False),
        ((0, 1, 0), 0, False),
        ((1,), 0, False),
        ((0, 5, 6), 5, True),
        ((0, 6), 5, False),
        ((0, 1, 0), 5, False),
    ],
)
def test_readers_skip_nothing(end: End, offsets: tuple[int, ...], deleted_before: int, is_fine: bool) -> None:
    end.history.ask_deletion(P0, deleted_before)
    for offset in offsets:
        end.history.read("r", P0, offset, b"v")
    assert (not end.verdict(ReadersSkippedNothing(), {})) is is_fine


def test_a_protest_is_heard(end: End) -> None:
    end.history.acknowledge(P0, 0, b"p/0", producer="p", is_promised=True)
    assert not end.verdict(ReadersSkippedNothing(), {})
    end.history.acknowledge(P0, 0, b"q/0", producer="q", is_promised=True)
    assert len(end.verdict(ReadersSkippedNothing(), {})) == 1, "two records of one offset"
    assert len(list(ReadersSkipNothing(end.history).look(snapshot()))) == 1, "at once"
