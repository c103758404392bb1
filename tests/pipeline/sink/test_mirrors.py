"""A query that copies from one cluster to another: in the cluster that it writes to nobody has a lag because of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery
from tests.pipeline.sink.looking import committed, lag, membership
from tidelog.model import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MODES = ["batch", "2pc", "at-least-once"]

Start = Callable[[str], DrivenQuery]


@pytest.fixture
def start(two_phase_hand: Hand, topic: str, tmp_path: Path) -> Iterator[Start]:
    """Begin a query that writes to the topic, in a commit mode."""
    begun: list[DrivenQuery] = []

    def begin(mode: str) -> DrivenQuery:
        two_phase_hand.create(topic, 2)
        two_phase_hand.send(topic, [b"x"] * 5, linger_ms="0")
        begun.append(
            DrivenQuery(
                two_phase_hand.bootstrap, tmp_path, topic=topic, commit__mode=mode, queryName=f"group-of-{topic}"
            )
        )
        return begun[-1]

    yield begin
    for query in begun:
        query.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_mirror_shows_no_lag_in_the_cluster_that_it_writes_to(
    mode: str, start: Start, hand: Hand, two_phase_hand: Hand, topic: str
) -> None:
    """Also where a topic of the same name has as many records here as were read there."""
    query = start(mode)
    query.plan(0, {topic: {"0": 0, "1": 1}, "@topics": {topic: "an id"}, "@cluster": hand.cluster_id()})
    of_others = two_phase_hand.create(f"{topic}-of-others")  # by a name that consumers here have, too
    with membership(two_phase_hand.bootstrap, f"group-of-{topic}", of_others):
        query.run_micro_batch(0, [b"a"])
    query.plan(1, {topic: {"0": 1_000_000, "1": 3}})  # as Spark's own source tells it
    query.run_micro_batch(1, [b"b"])
    assert {key.topic for key in committed(two_phase_hand.bootstrap, f"group-of-{topic}")} <= {of_others}
    assert sorted(record.value or b"" for record in two_phase_hand.read(topic)) == [b"a", b"b", *[b"x"] * 5]


@pytest.mark.parametrize("mode", MODES)
def test_a_query_over_both_clusters_has_the_lag_of_what_it_reads_here(
    mode: str, start: Start, hand: Hand, two_phase_hand: Hand, topic: str
) -> None:
    query = start(mode)
    source = two_phase_hand.create(f"{topic}-in")
    two_phase_hand.send(source, [b"x"] * 5)
    here = {source: {"0": 3}, "@cluster": two_phase_hand.cluster_id()}
    there = {source: {"0": 1}, topic: {"0": 1}, "@cluster": hand.cluster_id()}
    query.plan(0, there, here)
    query.run_micro_batch(0, [b"a"])
    group = f"group-of-{topic}"
    assert committed(two_phase_hand.bootstrap, group) == {TopicPartition(source, 0): 3}
    assert lag(two_phase_hand.bootstrap, group) == 2
