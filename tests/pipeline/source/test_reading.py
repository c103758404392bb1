"""What tasks read: every record of their ranges, once and in order, whatever the brokers do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand, Row
from tests.pipeline.source.conftest import MakeRig
from tests.pipeline.source.rig import Read
from tests.tiers import rest_proven
from tidelog.client import TopicMetadata
from tidelog.model import TopicPartition
from tidelog.pipeline.source.errors import DataLost, ReadStuck
from tidelog.pipeline.source.planning import Range, TaskRanges
from tidelog.pipeline.source.ranges_left import RangeLeft
from tidelog.pipeline.source.raw_reader import AHEAD_BYTES_MAX
from tidelog.pipeline.source.reading import Download, read_ranges

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def numbered(count: int, partition: int = 0, size: int = 0) -> list[Row]:
    return [Row(b"%d" % at + bytes(size), partition=partition) for at in range(count)]


def expected(start: int, end: int, partition: int = 0, size: int = 0) -> list[Read]:
    return [Read(partition, at, b"%d" % at + bytes(size)) for at in range(start, end)]


def wait_until_replicated(hand: Hand, topic: str) -> None:
    def is_replicated() -> bool:
        found = hand.describe(topic)
        is_in_sync = isinstance(found, TopicMetadata) and all(len(each.isr) == 3 for each in found.partitions)
        return is_in_sync and hand.broker_count() == 3

    eventually(is_replicated, f"all replicas of {topic} are in sync")


@contextmanager
def without_leader(cluster: TidelogCluster, hand: Hand, topic: str) -> Iterator[int]:
    """Kill the leader of partition 0; it is back, and in sync, at the end of the block."""
    wait_until_replicated(hand, topic)
    leader = hand.leader_of(topic)
    cluster.kill(leader)
    try:
        yield leader
    finally:
        cluster.restart(leader)
        wait_until_replicated(hand, topic)


def test_ranges_are_read_exactly_and_in_order(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 3)
    for partition in range(3):
        hand.send(topic, numbered(500, partition))
    read = rig().read((0, 10, 490), (1, 0, 1), (2, 499, 500))
    assert read == expected(10, 490) + expected(0, 1, 1) + expected(499, 500, 2)


def test_two_ranges_of_one_partition_are_read_by_one_task(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(100))
    assert sorted(rig().read((0, 0, 10), (0, 50, 60))) == expected(0, 10) + expected(50, 60)


def test_more_is_read_than_fits_into_one_fetch(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 2)
    for partition in range(2):
        hand.send(topic, numbered(3000, partition, size=1000))
    read = rig(kafka__max__partition__fetch__bytes="100000").read((0, 0, 3000), (1, 0, 3000))
    assert read == expected(0, 3000, 0, 1000) + expected(0, 3000, 1, 1000)


def test_a_batch_larger_than_a_fetch_is_read(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, [Row(bytes(900_000)), Row(b"small")])
    read = rig(kafka__max__partition__fetch__bytes="1000", kafka__fetch__max__bytes="1000").read((0, 0, 2))
    assert [len(row.value or b"") for row in read] == [900_000, 5]


def test_aborted_records_are_not_read_unless_asked_for(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send_transaction(topic, [b"no"], transactional_id=topic, commits=False)
    hand.send_transaction(topic, [b"yes"], transactional_id=topic)
    assert [row.value for row in rig().read((0, 0, 4))] == [b"yes"]
    loose = rig(kafka__isolation__level="read_uncommitted")
    assert [row.value for row in loose.read((0, 0, 4))] == [b"no", b"yes"]


@pytest.mark.proof
def test_a_task_reads_on_when_a_leader_dies(cluster: TidelogCluster, hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(5000, size=1000))
    query = rig(kafka__max__partition__fetch__bytes="20000")
    batches = read_ranges(query.contact, query.task((0, 0, 5000)), ("offset",), query.options)
    offsets = next(batches).column(0).to_pylist()
    with without_leader(cluster, hand, topic):
        offsets += [offset for batch in batches for offset in batch.column(0).to_pylist()]
    assert offsets == list(range(5000))


@pytest.mark.proof
def test_a_fresh_task_finds_the_new_leader(cluster: TidelogCluster, hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    query = rig()
    assert query.read((0, 0, 5)) == expected(0, 5)
    with without_leader(cluster, hand, topic):
        assert query.read((0, 5, 10)) == expected(5, 10)


@pytest.mark.timed
def test_a_leader_that_falls_silent_is_left(cluster: TidelogCluster, hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    wait_until_replicated(hand, topic)
    query = rig()
    leader = hand.leader_of(topic)
    cluster.stop(leader)
    try:
        assert query.read((0, 0, 10)) == expected(0, 10)
    finally:
        cluster.cont(leader)
        wait_until_replicated(hand, topic)


@pytest.mark.parametrize("fails", [True, False])
def test_deleted_records_are_data_loss(hand: Hand, topic: str, rig: MakeRig, fails: bool) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    hand.delete_records(topic, {0: 4})
    query = rig(failOnDataLoss=str(fails).lower())
    if fails:
        with pytest.raises(DataLost, match=f"{topic}-0 begins at offset 4, and 0 to 3 are deleted"):
            query.read((0, 0, 10))
    else:
        assert query.read((0, 0, 10)) == expected(4, 10)
        assert query.read((0, 0, 3)) == []


@pytest.mark.parametrize("fails", [True, False])
def test_offsets_past_the_end_are_data_loss(hand: Hand, topic: str, rig: MakeRig, fails: bool) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    query = rig(failOnDataLoss=str(fails).lower())
    if fails:
        with pytest.raises(DataLost, match=f"{topic}-0 ends at offset 10, and 20 to 29 are not there"):
            query.read((0, 20, 30))
    else:
        assert query.read((0, 20, 30)) == []


@pytest.mark.parametrize("fails", rest_proven([True, False]))
def test_a_deleted_topic_is_data_loss_for_its_tasks(hand: Hand, topic: str, rig: MakeRig, fails: bool) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    query = rig(failOnDataLoss=str(fails).lower())
    assert query.read((0, 0, 5)) == expected(0, 5)
    hand.delete(topic)
    if fails:
        with pytest.raises(DataLost, match=f"topic '{topic}' is gone"):
            query.read((0, 5, 10))
    else:
        assert query.read((0, 5, 10)) == []


@pytest.mark.timed
def test_records_that_do_not_come_are_not_waited_for_without_end(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    query = rig(kafkaConsumer__pollTimeoutMs="2000")
    with hand.open_transaction(topic, numbered(2), transactional_id=topic) as undecided:
        with pytest.raises(ReadStuck) as caught:
            query.read((0, 0, 12))
        undecided.commit()
    assert f"reading {topic}-0 failed: offsets 10 to 11 did not come within 2 s" in str(caught.value)
    assert f"broker {hand.leader_of(topic)} has nothing at offset 10: it ends at 12" in str(caught.value)


@pytest.mark.parametrize("fails", rest_proven([True, False]))
def test_a_log_that_was_cut_after_a_micro_batch_was_planned_is_data_loss(
    hand: Hand, topic: str, rig: MakeRig, fails: bool
) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(10))
    query = rig(failOnDataLoss=str(fails).lower())
    if fails:
        with pytest.raises(DataLost, match=f"{topic}-0 ends at offset 10, and 10 to 11 are not there any more"):
            query.read((0, 0, 12))
    else:
        assert query.read((0, 0, 12)) == expected(0, 10)


@pytest.mark.parametrize("fails", rest_proven([True, False]))
def test_a_topic_made_anew_after_a_micro_batch_was_planned_is_data_loss(
    hand: Hand, topic: str, rig: MakeRig, fails: bool
) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(5))
    query = rig(failOnDataLoss=str(fails).lower())
    planned = TaskRanges((Range(TopicPartition(topic, 0), 2, 5, query.survey_topic_id()),))
    hand.delete(topic)
    hand.create(topic, 1)
    hand.send(topic, [b"another"] * 9)
    if fails:
        with pytest.raises(DataLost, match=f"topic '{topic}' was deleted and made anew before it was read"):
            query.read_task(planned)
    else:
        assert query.read_task(planned) == []


def test_no_partition_of_a_leader_waits_until_the_others_are_read(hand: Hand, topic: str, rig: MakeRig) -> None:
    """An answer that holds one batch serves the partitions in turn: who was always the last to be asked for was never served."""
    hand.create(topic, assignment={at: [1] for at in range(6)})
    for partition in range(6):
        for _ in range(6):
            hand.send(topic, numbered(1, partition, size=60_000), acks="1", enable_idempotence="false")
    query = rig(kafka__fetch__max__bytes="1000", kafkaConsumer__pollTimeoutMs="60000")
    with Download(query.contact, query.options, query.task(*((at, 0, 6) for at in range(6)))) as download:
        order = [chunk.at for chunk in download]
    assert sorted(order) == sorted([*range(6)] * 6)
    assert all(set(order[turn : turn + 6]) == set(range(6)) for turn in range(0, 36, 6))


def test_who_waits_for_the_reader_is_not_stuck() -> None:
    left = RangeLeft(0, Range(TopicPartition("t", 0), 0, 10))
    left.trouble(1_000, "the leader had moved")
    left.forgive(3_000, 90_000)
    assert left.stuck_ms(90_000) == 2_000
    left.forgive(90_000, 95_000)
    assert left.stuck_ms(95_000) == 2_000
    left.calm()
    assert left.stuck_ms(99_000) == 0


@pytest.mark.timed
def test_brokers_that_are_gone_are_named_when_patience_ends(
    cluster: TidelogCluster, hand: Hand, topic: str, rig: MakeRig
) -> None:
    hand.create(topic, assignment={0: [1]})
    hand.send(topic, numbered(10), acks="1", enable_idempotence="false")
    query = rig(kafkaConsumer__pollTimeoutMs="3000")
    assert query.read((0, 0, 5)) == expected(0, 5)
    cluster.kill(1)
    try:
        with pytest.raises(ReadStuck) as caught:
            query.read((0, 5, 10))
    finally:
        cluster.restart(1)
        eventually(lambda: hand.broker_count() == 3, "the broker is back")
    assert f"127.0.0.1:{cluster.ports[1]}" in str(caught.value) or "LEADER_NOT_AVAILABLE" in str(caught.value)


def test_fetching_ahead_has_a_bound(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    for _ in range(4):
        hand.send(topic, numbered(10, size=900_000))
    query = rig()
    with Download(query.contact, query.options, query.task((0, 0, 40))) as download:
        eventually(lambda: download.reader.ahead_bytes >= AHEAD_BYTES_MAX, "as much is fetched ahead as may be")
        for _ in range(20):
            query.partitions()  # the loop has its turns, and would fetch on if it wanted to
        assert download.reader.ahead_bytes < AHEAD_BYTES_MAX + 4_000_000
        assert sum(len(chunk.data) for chunk in download) >= 40 * 900_000


def test_a_task_that_is_given_up_leaves_nothing_behind(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(2000, size=1000))
    query = rig(kafka__max__partition__fetch__bytes="10000")
    batches = read_ranges(query.contact, query.task((0, 0, 2000)), ("offset",), query.options)
    next(batches)
    batches.close()  # type: ignore[attr-defined]  # a generator, as Spark wants it
    assert query.read((0, 0, 10))[0].offset == 0
