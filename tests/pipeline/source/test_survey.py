"""What there is to read, and where reading begins and ends."""

from __future__ import annotations

import json
import time

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand, Row
from tests.pipeline.source.conftest import MakeRig
from tidelog.client import TopicMetadata
from tidelog.model import ErrorCode, TopicPartition
from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.source.errors import DataLost, TopicMissing, TopicRefused
from tidelog.pipeline.source.survey import refusal_in

pytestmark = pytest.mark.slow


def rows(partition: int, count: int, *, at_ms: int = 1000) -> list[Row]:
    return [Row(b"%d" % each, partition=partition, timestamp_ms=at_ms + each) for each in range(count)]


def test_all_partitions_of_all_topics_are_read(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 2)
    hand.create(f"{topic}-b", 1)
    found = rig(subscribe=f"{topic}-b,{topic}").partitions()
    assert found == [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"{topic}-b", 0)]


def test_a_pattern_matches_whole_names(hand: Hand, topic: str, rig: MakeRig) -> None:
    for name in (topic, f"{topic}-b", f"{topic}-bc"):
        hand.create(name, 1)
    assert rig(subscribePattern=f"{topic}-.").partitions() == [TopicPartition(f"{topic}-b", 0)]


def test_a_pattern_leaves_out_the_topics_that_brokers_keep_for_themselves(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send_transaction(topic, [b"x"], transactional_id=topic)  # brings __transaction_state about
    names = {key.topic for key in rig(subscribePattern=f"__.*|{topic}").partitions()}
    assert names == {topic}


def test_a_topic_that_does_not_exist_is_named_with_those_like_it(
    hand: Hand, topic: str, rig: MakeRig, cluster: TidelogCluster
) -> None:
    hand.create(topic, 1)
    began_s = time.monotonic()
    with pytest.raises(TopicMissing) as caught:
        rig(subscribe=f"{topic}x").partitions()
    assert f"Option subscribe: topic '{topic}x' does not exist at {cluster.bootstrap}" in str(caught.value)
    assert f"'{topic}'" in str(caught.value)
    assert time.monotonic() - began_s < 20


def test_a_name_that_no_topic_can_have_is_refused_at_once(hand: Hand, topic: str, rig: MakeRig) -> None:
    with pytest.raises(TopicRefused, match=r"topic 'no such!' cannot be read: brokers answer INVALID_TOPIC_EXCEPTION"):
        rig(subscribe="no such!").partitions()


def test_a_topic_of_which_nothing_is_told_is_not_taken_for_deleted() -> None:
    there = TopicMetadata(name="t", topic_id=None, is_internal=False, partitions=())
    assert refusal_in({"t": there, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}) is None  # that one is deleted
    silent = refusal_in({"t": there, "u": ErrorCode.LEADER_NOT_AVAILABLE})
    assert "topic 'u' cannot be read: brokers answer LEADER_NOT_AVAILABLE" in str(silent)
    with pytest.raises(TopicRefused, match="TOPIC_AUTHORIZATION_FAILED"):
        refusal_in({"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED})


def test_a_partition_that_does_not_exist_is_named(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 2)
    with pytest.raises(TopicMissing, match=f"Option assign: topic '{topic}' has no partition 7"):
        rig(assign=f'{{"{topic}":[0,7]}}').partitions()


def test_offsets_may_be_edges_or_numbers(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 3)
    for partition in range(3):
        hand.send(topic, rows(partition, 5))
    found = rig(streams=True, startingOffsets=f'{{"{topic}":{{"0":3,"1":-2,"2":-1}}}}')
    assert found.starting() == {0: 3, 1: 0, 2: 5}


def test_offsets_may_be_pasted_from_the_progress_of_a_query(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(0, 5))
    query = rig(streams=True, startingOffsets="earliest")
    end = query.latest(query.initial())
    assert {key for key in end if key.startswith("@")} == {"@since", "@topics", "@cluster"}
    assert rig(streams=True, startingOffsets=json.dumps(end)).starting() == {0: 5}


def test_offsets_must_name_every_partition(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 2)
    with pytest.raises(OptionRefused, match=f"Option startingOffsets: it must name every partition.*{topic}-1"):
        rig(startingOffsets=f'{{"{topic}":{{"0":0}}}}').starting()
    with pytest.raises(OptionRefused, match=f"it names {topic}-9, which is not among"):
        rig(startingOffsets=f'{{"{topic}":{{"0":0,"1":0,"9":0}}}}').starting()


@pytest.mark.parametrize(("option", "at"), [("startingOffsets", 9), ("startingOffsets", 1), ("endingOffsets", 9)])
def test_an_offset_out_of_range_is_named_with_the_range(
    hand: Hand, topic: str, rig: MakeRig, option: str, at: int
) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(0, 5))
    hand.delete_records(topic, {0: 2})
    strict = rig(**{option: f'{{"{topic}":{{"0":{at}}}}}'})
    said = f"Option {option}: offset {at} of {topic}-0 is out of range, which is from 2 to 5.*failOnDataLoss"
    with pytest.raises(DataLost, match=said):
        strict.starting() if option == "startingOffsets" else strict.ending()


def test_an_offset_out_of_range_moves_into_it_where_losses_do_not_matter(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(0, 5))
    hand.delete_records(topic, {0: 2})
    place = f'{{"{topic}":{{"0":%d}}}}'
    loose = rig(startingOffsets=place % 0, endingOffsets=place % 99, failOnDataLoss="false")
    assert (loose.starting(), loose.ending()) == ({0: 2}, {0: 5})


def test_times_find_the_first_record_at_or_after_them(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 2)
    hand.send(topic, rows(0, 5) + rows(1, 5, at_ms=1002))
    one = rig(startingTimestamp="1003", endingTimestamp="1005")
    assert (one.starting(), one.ending()) == ({0: 3, 1: 1}, {0: 5, 1: 3})
    each = rig(startingOffsetsByTimestamp=f'{{"{topic}":{{"0":1001,"1":1004}}}}')
    assert each.starting() == {0: 1, 1: 2}


def test_a_time_after_the_last_record_is_an_error_or_the_end(hand: Hand, topic: str, rig: MakeRig) -> None:
    hand.create(topic, 1)
    hand.send(topic, rows(0, 5))
    with pytest.raises(OptionRefused, match=f"Option startingTimestamp: {topic}-0 has no record at or after 9999"):
        rig(startingTimestamp="9999").starting()
    assert rig(startingTimestamp="9999", startingOffsetsByTimestampStrategy="latest").starting() == {0: 5}
