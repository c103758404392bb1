"""A stage that Spark runs again: its tasks have the numbers of those before, and a shuffle may have dealt other rows to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from tests.cluster.waiting import eventually
from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery, rows_of
from tests.pipeline.sink.looking import open_transactions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MODES = ["batch", "2pc"]
FIRST: tuple[list[bytes], ...] = ([b"a", b"b"], [b"c"], [])
AGAIN: tuple[list[bytes], ...] = ([b"c"], [], [b"b", b"a"])


def query_of(hand: Hand, topic: str, checkpoint: Path, mode: str, run: str = "run-1") -> DrivenQuery:
    return DrivenQuery(hand.bootstrap, checkpoint, run=run, topic=topic, commit__mode=mode)


def stage(query: DrivenQuery, micro_batch_id: int, partitions: Sequence[list[bytes]]) -> list[WriterCommitMessage]:
    """Run every task of a stage for the first time, as Spark counts."""
    query.plan(micro_batch_id, {"source": {"0": micro_batch_id}})
    tasks = [
        replace(query.task(micro_batch_id, index), attempt=0, attempt_id=index) for index in range(len(partitions))
    ]
    return [query.mode.task_write(iter([rows_of(rows)]), task) for rows, task in zip(partitions, tasks, strict=True)]


def values(hand: Hand, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in hand.read(topic))


def until_nothing_is_open(hand: Hand, query: DrivenQuery) -> None:
    sink_id = query.settings.sink_id
    eventually(
        lambda: not [each for each in open_transactions(hand.bootstrap) if each.transactional_id.startswith(sink_id)],
        f"no transaction of {sink_id} is open",
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_that_is_submitted_again_commits_each_row_once(
    mode: str, two_phase_hand: Hand, topic: str, tmp_path: Path
) -> None:
    two_phase_hand.create(topic, 2)
    query = query_of(two_phase_hand, topic, tmp_path, mode)
    stage(query, 0, FIRST)
    query.mode.commit(stage(query, 0, AGAIN), 0)
    until_nothing_is_open(two_phase_hand, query)
    assert (values(two_phase_hand, topic), query.staged()) == ([b"a", b"b", b"c"], [])
    query.close()


@pytest.mark.parametrize("mode", MODES)
def test_tasks_of_a_stage_that_was_submitted_again_may_end_late_and_a_replay_writes_nothing(
    mode: str, two_phase_hand: Hand, topic: str, tmp_path: Path
) -> None:
    two_phase_hand.create(topic, 2)
    query = query_of(two_phase_hand, topic, tmp_path, mode)
    query.mode.commit(stage(query, 0, AGAIN), 0)
    stage(query, 0, FIRST)  # by executors that were given up
    query.mode.commit(stage(query, 0, FIRST), 0)  # by another process of the driver that had not heard of it
    query.close()
    later = query_of(two_phase_hand, topic, tmp_path, mode, run="run-2")
    later.mode.commit(stage(later, 0, FIRST), 0)
    later.mode.commit(stage(later, 1, [[b"d"]]), 1)
    until_nothing_is_open(two_phase_hand, later)
    assert (values(two_phase_hand, topic), later.staged()) == ([b"a", b"b", b"c", b"d"], [])
    later.close()
