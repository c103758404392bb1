"""Mode at-least-once against real brokers, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery
from tests.pipeline.sink.looking import committed, lag
from tidelog.model import TopicPartition
from tidelog.pipeline.sink.errors import BadRows, SinkFailed, TopicMissing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def query(cluster: TidelogCluster, tmp_path: Path, topic: str) -> Iterator[DrivenQuery]:
    driven = DrivenQuery(
        cluster.bootstrap, tmp_path, topic=topic, commit__mode="at-least-once", queryName=f"group-of-{topic}"
    )
    yield driven
    driven.close()


def values(hand: Hand, topic: str) -> list[bytes]:
    return [record.value or b"" for record in hand.read(topic)]


def test_rows_are_visible_before_the_commit_and_again_with_every_attempt(
    query: DrivenQuery, hand: Hand, topic: str
) -> None:
    hand.create(topic)
    messages = query.write(0, [b"a", b"b"])
    assert values(hand, topic) == [b"a", b"b"]
    query.mode.abort(messages, 0)
    query.run_micro_batch(0, [b"a", b"b"])
    assert values(hand, topic) == [b"a", b"b"] * 2
    assert query.staged() == []


def test_many_rows_of_one_task_stay_in_order(query: DrivenQuery, hand: Hand, topic: str) -> None:
    hand.create(topic)
    rows = [b"%d" % index + b"x" * 1000 for index in range(20_000)]
    query.run_micro_batch(0, rows)
    assert values(hand, topic) == rows


def test_the_position_of_the_query_is_committed_after_its_rows(query: DrivenQuery, hand: Hand, topic: str) -> None:
    hand.create(topic)
    source = hand.create(f"{topic}-in")
    hand.send(source, [b"x"] * 5)
    query.plan(0, {source: {"0": 3}, "of another cluster": {"0": 7}})
    query.run_micro_batch(0, [b"a"])
    assert committed(hand.bootstrap, f"group-of-{topic}") == {TopicPartition(source, 0): 3}
    assert lag(hand.bootstrap, f"group-of-{topic}") == 2


def test_what_cannot_be_written_is_told_and_the_worker_goes_on(query: DrivenQuery, hand: Hand, topic: str) -> None:
    with pytest.raises(TopicMissing, match=f"'{topic}'"):
        query.write(0, [b"a"])
    hand.create(topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(SinkFailed, match=r"MESSAGE_TOO_LARGE.*max\.message\.bytes of its topic"):
        query.write(0, [b"x" * 2000])
    with pytest.raises(BadRows, match="'partition' names 9"):
        query.write(0, [{"value": b"a", "partition": 9}])
    query.write(0, [b"a"])
    assert values(hand, topic) == [b"a"]


def test_rows_of_one_task_may_go_to_many_topics(
    cluster: TidelogCluster, hand: Hand, topic: str, tmp_path: Path
) -> None:
    names = [hand.create(f"{topic}-{index}") for index in range(3)]
    driven = DrivenQuery(cluster.bootstrap, tmp_path, commit__mode="at-least-once", offsets__group="none")
    driven.run_micro_batch(0, [{"topic": names[index % 3], "value": b"%d" % index} for index in range(9)])
    assert [values(hand, name) for name in names] == [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]
