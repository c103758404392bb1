"""How far micro-batches read."""

from __future__ import annotations

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.hand import Hand, Row
from tests.pipeline.source.conftest import MakeRig
from tests.pipeline.source.rig import Rig
from tests.tiers import rest_proven
from tidelog.pipeline.source.errors import DataLost
from tidelog.pipeline.source.offsets import positions_in, start_of

pytestmark = pytest.mark.slow


def ends(offset: dict[str, object]) -> dict[int, int]:
    return {key.index: at for key, at in positions_in(offset).items()}


def rows(count: int, partition: int = 0) -> list[Row]:
    return [Row(b"x", partition=partition) for _ in range(count)]


def first_end(query: Rig) -> dict[str, object]:
    return query.latest(query.initial())


def test_a_query_begins_at_the_latest_record_and_stays_with_that(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(3))
    query = rig(streams=True)
    initial = query.initial()
    hand.send(topic, rows(2))
    assert ends(initial) == ends(query.initial()) == {0: 3}
    assert ends(query.latest(initial)) == {0: 5}


def test_an_undecided_transaction_is_not_read_into(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(3))
    committed, loose = (
        rig(streams=True, startingOffsets="earliest", kafka__isolation__level=level)
        for level in ("read_committed", "read_uncommitted")
    )
    with hand.open_transaction(topic, rows(2), transactional_id=topic) as undecided:
        assert ends(first_end(committed)) == {0: 3}
        assert ends(first_end(loose)) == {0: 5}
        undecided.commit()
    eventually(lambda: ends(first_end(committed)) == {0: 6}, "two records and the marker may be read")


@pytest.mark.parametrize("fails", [True, False])
def test_a_query_that_read_undecided_records_before_waits_where_it_is(
    hand: Hand, topic: str, rig: MakeRig, fails: bool
) -> None:
    """As a job does that comes from Spark's own source, whose default is to read what is not decided: nothing is lost by that."""
    hand.create(topic, 1)
    hand.send(topic, rows(3))
    loose, committed = (
        rig(streams=True, startingOffsets="earliest", failOnDataLoss=str(fails).lower(), kafka__isolation__level=level)
        for level in ("read_uncommitted", "read_committed")
    )
    with hand.open_transaction(topic, rows(2), transactional_id=topic) as undecided:
        read = first_end(loose)
        assert ends(read) == {0: 5}
        assert committed.latest(read) == read
        undecided.commit()
    eventually(lambda: ends(committed.latest(read)) == {0: 6}, "it goes on behind what it had read")


def test_max_offsets_per_trigger_bounds_a_micro_batch_unless_spark_asks_for_all(
    hand: Hand, topic: str, rig: MakeRig
) -> None:
    hand.create(topic, 2)
    hand.send(topic, rows(90) + rows(10, partition=1))
    query = rig(streams=True, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    end = first_end(query)
    assert sum(ends(end).values()) <= 20
    assert min(ends(end).values()) > 0
    assert ends(query.latest(end, is_limited=False)) == {0: 90, 1: 10}
    reported = query.progress.reported()
    assert reported is not None
    assert ends(reported) == {0: 90, 1: 10}


def test_min_offsets_per_trigger_are_waited_for(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(3))
    query = rig(streams=True, startingOffsets="earliest", minOffsetsPerTrigger="5")
    end = first_end(query)
    assert ends(end) == {0: 3}  # the first micro-batch waits for nothing
    hand.send(topic, rows(4))
    assert query.latest(end) == end
    hand.send(topic, rows(1))
    assert ends(query.latest(end)) == {0: 8}


def test_min_offsets_per_trigger_are_waited_for_no_longer_than_allowed(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    query = rig(streams=True, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1500ms")
    end = first_end(query)
    hand.send(topic, rows(1))
    eventually(lambda: ends(query.latest(end)) == {0: 1}, "the single record is read after all")


def test_new_partitions_are_picked_up_from_their_beginning(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    query = rig(streams=True)
    end = first_end(query)
    hand.grow(topic, 2)
    hand.send(topic, rows(3, partition=1))
    eventually(lambda: ends(query.latest(end)) == {0: 0, 1: 3}, "the new partition is found")


def test_new_topics_of_a_pattern_are_picked_up(hand: Hand, topic: str, rig: MakeRig) -> None:
    query = rig(streams=True, subscribePattern=f"{topic}-.*")
    end = first_end(query)
    assert positions_in(end) == {}
    hand.create(f"{topic}-new", 1)
    hand.send(f"{topic}-new", rows(3))
    eventually(lambda: ends(query.latest(end)) == {0: 3}, "the new topic is found")


@pytest.mark.parametrize("fails", rest_proven([True, False]))
def test_a_deleted_topic_is_data_loss(hand: Hand, topic: str, rig: MakeRig, fails: bool) -> None:
    hand.create(topic, 1)
    hand.create(f"{topic}-kept", 1)
    query = rig(streams=True, subscribe=f"{topic},{topic}-kept", failOnDataLoss=str(fails).lower())
    end = first_end(query)
    hand.delete(topic)
    if fails:
        with pytest.raises(DataLost, match=f"{topic}-0: gone.*set the option failOnDataLoss to false"):
            query.latest(end)
    else:
        assert {key.topic for key in positions_in(query.latest(end))} == {f"{topic}-kept"}


@pytest.mark.parametrize(
    ("option", "text"), [("subscribe", "{}-b"), ("assign", '{{"{}-b":[0]}}'), ("subscribePattern", ".*-b")]
)
def test_a_topic_that_is_not_subscribed_to_any_more_is_not_said_to_be_gone(
    hand: Hand, topic: str, rig: MakeRig, option: str, text: str
) -> None:
    for each in "ab":
        hand.create(f"{topic}-{each}", 1)
    end = first_end(rig(streams=True, subscribe=f"{topic}-a,{topic}-b"))
    fewer = rig(streams=True, **{option: text.format(topic)})
    with pytest.raises(DataLost, match=f"{topic}-a-0: read before, but not meant by the option {option} any more"):
        fewer.latest(end)


@pytest.mark.parametrize("fails", rest_proven([True, False]))
def test_a_topic_made_anew_is_data_loss(hand: Hand, topic: str, rig: MakeRig, fails: bool) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(5))
    query = rig(streams=True, failOnDataLoss=str(fails).lower())
    end = first_end(query)
    hand.delete(topic)
    hand.create(topic, 1)
    hand.send(topic, rows(2))
    if fails:
        with pytest.raises(DataLost, match=f"{topic}: made anew since it was read"):
            query.latest(end)
    else:
        again = query.latest(end)
        assert (ends(again), start_of(end, again)) == ({0: 2}, {})


@pytest.mark.parametrize("fails", rest_proven([True, False]))
def test_a_topic_made_anew_that_has_grown_past_what_was_read_is_data_loss(
    hand: Hand, topic: str, rig: MakeRig, fails: bool
) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(5))
    query = rig(streams=True, failOnDataLoss=str(fails).lower())
    end = first_end(query)
    query.close()
    hand.delete(topic)
    hand.create(topic, 1)
    hand.send(topic, rows(9))
    later = rig(streams=True, failOnDataLoss=str(fails).lower())  # after a restart, with nothing but its checkpoint
    if fails:
        with pytest.raises(DataLost, match=f"{topic}: made anew since it was read"):
            later.latest(end)
    else:
        again = later.latest(end)
        assert (ends(again), start_of(end, again)) == ({0: 9}, {})
        assert later.latest(again) == again


def test_available_now_from_the_latest_record_loses_nothing_though_more_comes_meanwhile(
    hand: Hand, topic: str, rig: MakeRig
) -> None:
    hand.create(topic, 2)
    hand.send(topic, rows(3))
    query = rig(streams=True)
    query.contact.run(query.progress.prepare_for_available_now())
    hand.send(topic, rows(4))  # between the two questions of Spark
    initial = query.initial()
    assert ends(initial) == {0: 7, 1: 0}
    end = query.latest(initial)
    assert ends(end) == {0: 7, 1: 0}
    assert query.latest(end) == end


def test_available_now_does_not_take_a_leader_that_knows_less_for_a_loss(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(3))
    query = rig(streams=True, startingOffsets="earliest")
    query.contact.run(query.progress.prepare_for_available_now())  # as told by a new leader: its high watermark lags
    hand.send(topic, rows(4))
    checkpoint: dict[str, object] = {topic: {"0": 5}}
    end = query.latest(checkpoint)
    assert end == checkpoint  # what is past the checkpoint came later
    assert query.latest(end) == end


def test_available_now_reads_what_was_there_and_then_has_nothing_to_do(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(25))
    query = rig(streams=True, startingOffsets="earliest", maxOffsetsPerTrigger="10", minOffsetsPerTrigger="10")
    query.contact.run(query.progress.prepare_for_available_now())
    hand.send(topic, rows(5))
    hand.grow(topic, 2)
    offset = query.initial()
    seen = []
    while (end := query.latest(offset)) != offset:
        seen.append(ends(end))
        offset = end
    assert seen == [{0: 10, 1: 0}, {0: 20, 1: 0}, {0: 25, 1: 0}]
