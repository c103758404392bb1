"""A topic that gets partitions while a query runs, and rows that name them at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery
from tidelog.pipeline.sink.errors import BadRows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def rows(micro_batch_id: int, partitions: range) -> list[dict[str, Any]]:
    return [{"partition": index, "value": b"%d-%d" % (micro_batch_id, index)} for index in partitions]


def placed(hand: Hand, topic: str) -> list[tuple[int, bytes | None]]:
    return sorted((record.topic_partition.index, record.value) for record in hand.read(topic))


@pytest.fixture
def hand_of(request: pytest.FixtureRequest) -> Callable[[str], Hand]:
    """A hand in a cluster that lets a commit mode work."""

    def chosen(mode: str) -> Hand:
        found: Hand = request.getfixturevalue("two_phase_hand" if mode == "2pc" else "hand")
        return found

    return chosen


@pytest.mark.parametrize("mode", ["batch", "2pc", "at-least-once"])
def test_a_row_may_name_a_partition_as_soon_as_the_topic_has_it(
    mode: str, hand_of: Callable[[str], Hand], topic: str, tmp_path: Path
) -> None:
    hand = hand_of(mode)
    hand.create(topic)
    query = DrivenQuery(hand.bootstrap, tmp_path, topic=topic, commit__mode=mode)
    query.run_micro_batch(0, rows(0, range(1)))
    hand.grow(topic, 3)
    query.run_micro_batch(1, rows(1, range(3)))
    assert placed(hand, topic) == [(0, b"0-0"), (0, b"1-0"), (1, b"1-1"), (2, b"1-2")]
    with pytest.raises(BadRows, match=rf"topic '{topic}'.*'partition' names 3, where the topic has 0 to 2"):
        query.write(2, rows(2, range(4)))
    query.close()
