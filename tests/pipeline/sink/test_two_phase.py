"""Mode 2pc when nobody dies: what is written, what is refused, and in which words."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.compatibility.processes import TidelogCluster, TidelogProcess
from tests.pipeline.hand import Hand
from tests.pipeline.sink.looking import committed
from tests.pipeline.sink.two_phase_rig import Query, drive, expected, rows
from tidelog.client import Producer, ProducerConfig
from tidelog.client.bridge import Bridge
from tidelog.model import TopicPartition
from tidelog.pipeline.sink.driver_client import DriverClient
from tidelog.pipeline.sink.errors import SinkFailed, TopicMissing
from tidelog.pipeline.sink.ledger import FoundMarkers, Marker, as_nobody, marker_group, marker_offsets
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.prepared import CANDIDATES_MAX
from tidelog.pipeline.sink.two_phase import PreparedMessage, TwoPhaseCommit
from tidelog.runtime.real import real_runtime

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

JOB_TASK = Task(partition=0, attempt=0, attempt_id=0, query_id=None, run_id=None, micro_batch_id=None)


def test_micro_batches_are_committed_one_after_the_other_with_marker_and_position(query: Query) -> None:
    for number in range(3):
        assert drive(query, "commit", query.write(number, run="a"), number) == "done"
    assert query.committed_values() == expected(range(3))
    assert (query.manifests(), query.position()) == ([], 3)
    markers = committed(query.hand.bootstrap, marker_group(query.sink_id))
    assert markers == {TopicPartition(query.topic, 0): 3}


def test_before_the_driver_decides_nothing_is_visible(query: Query) -> None:
    messages = query.write(0, run="a")
    assert query.hand.read(query.topic) == []
    assert len(query.hand.read(query.topic, committed_only=False)) == len(expected([0]))
    assert len(pickle.dumps(messages)) < 2_000


@pytest.mark.proof
def test_a_topic_that_is_deleted_while_a_task_writes_is_named_and_not_waited_for(query: Query) -> None:
    query.write(0, run="a")
    query.hand.delete(query.topic)
    with pytest.raises(TopicMissing, match=f"topic '{query.topic}', named by the option topic .* does not exist"):
        query.write(1, run="a")


def test_rows_go_to_the_topics_that_they_name(query: Query) -> None:
    other = query.hand.create(f"{query.topic}-other", 1)
    free = replace(query, options=(("topic", ""),))
    table = {"topic": [query.topic, other, other], "value": [b"a", b"b", b"c"]}
    query.plan(0)
    mode = TwoPhaseCommit(free.settings)
    batch = pa.RecordBatch.from_pydict({"topic": table["topic"], "value": pa.array(table["value"], pa.binary())})
    message = mode.task_write(iter([batch]), query.task(0, 0, run="a"))
    assert drive(free, "commit", [message], 0) == "done"
    assert query.committed_values() == [b"a"]
    assert [record.value for record in query.hand.read(other)] == [b"b", b"c"]
    markers = committed(query.hand.bootstrap, marker_group(query.sink_id))
    assert markers == {TopicPartition(query.topic, 0): 1, TopicPartition(other, 0): 1}


def test_a_micro_batch_without_rows_moves_the_position_only(query: Query) -> None:
    query.plan(0)
    message = TwoPhaseCommit(query.settings).task_write(iter([]), query.task(0, 0, run="a"))
    assert drive(query, "commit", [message], 0) == "done"
    assert (query.committed_values(), query.position(), query.manifests()) == ([], 1, [])
    assert drive(query, "commit", query.write(1, run="a"), 1) == "done"
    assert query.committed_values() == expected([1])


def test_a_query_that_begins_anew_under_the_same_sink_id_is_not_taken_for_a_replay(
    query: Query, tmp_path: Path
) -> None:
    assert drive(query, "commit", query.write(0, run="a"), 0) == "done"
    refreshed = replace(query, query_id="another query", checkpoint=tmp_path / "refreshed")
    assert drive(refreshed, "commit", refreshed.write(0, run="b"), 0) == "done"
    assert query.committed_values() == sorted(expected([0]) * 2)


def test_a_sink_leaves_alone_what_a_sink_with_a_longer_name_has_prepared(query: Query, tmp_path: Path) -> None:
    longer = replace(
        query, checkpoint=tmp_path / "longer", options=(("sink.id", f"{query.sink_id}-1"), ("offsets.group", "none"))
    )
    theirs = longer.write(0, run="a")
    assert drive(query, "commit", query.write(1, run="a"), 1) == "done"
    assert drive(longer, "commit", theirs, 0) == "done"
    assert query.committed_values() == expected(range(2))


def job_of(query: Query, root: Path) -> SinkSettings:
    """Another job under the same sink id, each time."""
    return SinkSettings.of_batch(
        {
            "kafka.bootstrap.servers": query.hand.bootstrap,
            "topic": query.topic,
            "commit.mode": "2pc",
            "sink.id": query.sink_id,
            "staging.dir": str(root),
        }
    )


def written_by(settings: SinkSettings, number: int) -> list[PreparedMessage | None]:
    tasks = [replace(JOB_TASK, partition=partition) for partition in range(2)]
    return [TwoPhaseCommit(settings).task_write(rows(number, task.partition), task) for task in tasks]


def test_a_batch_job_is_all_or_nothing(query: Query, tmp_path: Path) -> None:
    for is_committed in (False, True):
        settings = job_of(query, tmp_path / "staging")
        messages = written_by(settings, 0)
        driver = pickle.loads(pickle.dumps(TwoPhaseCommit(settings)))  # noqa: S301
        if is_committed:
            driver.commit(messages, None)
        else:
            driver.abort(messages, None)
        assert query.committed_values() == (expected([0]) if is_committed else [])
    assert not list((tmp_path / "staging").iterdir())


@pytest.mark.parametrize("point", ["after write_manifest", "in finish"])
def test_a_batch_job_that_died_is_ended_by_the_next_one_under_its_sink_id(
    query: Query, tmp_path: Path, point: str
) -> None:
    first, second = job_of(query, tmp_path / "staging"), job_of(query, tmp_path / "staging")
    assert drive(first, "commit", written_by(first, 0), None, dies=point) == "died"
    assert drive(second, "commit", written_by(second, 1), None) == "done"
    assert query.committed_values() == expected([0, 1] if point == "in finish" else [1])
    assert not list((tmp_path / "staging").iterdir())


def test_attempts_that_find_earlier_ones_open_take_other_ids_within_bounds(query: Query) -> None:
    lonely = replace(query, partition_count=1)
    messages = [lonely.write(0, run="a") for _ in range(CANDIDATES_MAX)]
    names = {message.prepared.transactional_id for some in messages for message in some if message.prepared is not None}
    assert len(names) == CANDIDATES_MAX
    with pytest.raises(SinkFailed, match="earlier attempts under sink id"):
        lonely.write(0, run="a")
    assert drive(lonely, "commit", messages[3], 0) == "done"
    assert query.committed_values() == expected([0], 1)
    assert drive(lonely, "commit", lonely.write(1, run="a"), 1) == "done"


def test_a_task_that_fails_leaves_nothing_open(query: Query) -> None:
    class OutOfLuckError(Exception):
        pass

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([b"junk" * 200] * 20_000, pa.binary())})
        raise OutOfLuckError

    query.plan(0)
    with pytest.raises(OutOfLuckError):
        TwoPhaseCommit(query.settings).task_write(failing(), query.task(0, 0, run="a"))
    assert query.committed_values() == []
    assert query.hand.read(query.topic, committed_only=False) != []


def test_a_manifest_that_cannot_be_written_is_told_of_and_nothing_is_committed(query: Query) -> None:
    messages = query.write(0, run="a")
    obstacle = query.checkpoint / "sink-manifest"
    obstacle.rmdir()
    obstacle.write_text("a file where a directory should be")
    assert "the manifest of a two-phase commit cannot be written" in drive(query, "commit", messages, 0)
    with pytest.raises(SinkFailed, match="for manifests of a two-phase commit cannot be made"):
        query.write(0, run="b")
    obstacle.unlink()
    assert drive(query, "abort", messages, 0) == "done"
    assert query.committed_values() == []


def test_brokers_that_do_not_allow_two_phases_are_named_with_their_setting(
    cluster: TidelogCluster, hand: Hand, topic: str, tmp_path: Path
) -> None:
    query = Query(hand, hand.create(topic), tmp_path / "checkpoint")
    with pytest.raises(SinkFailed) as told:
        query.write(0, run="a")
    assert f"option commit.mode: 2pc must be allowed by the brokers at {cluster.bootstrap}" in str(told.value)
    assert "transaction.two.phase.commit.enable=true" in str(told.value)


def test_brokers_that_cannot_keep_prepared_transactions_are_refused(topic: str, tmp_path: Path) -> None:
    with TidelogProcess(tmp_path / "data", "-X", "tidelog.transaction.version=1") as process:
        hand = Hand(process.bootstrap)
        query = Query(hand, hand.create(topic), tmp_path / "checkpoint")
        with pytest.raises(SinkFailed, match=r"option commit\.mode: 2pc needs brokers .*KIP-939.* set it to batch"):
            query.write(0, run="a")
        hand.close()


def test_what_is_open_is_not_cleared_away_before_the_first_marker_is_there(query: Query) -> None:
    """Until then a late task would be told that its micro-batch is undecided, and prepare what nobody looks for any more."""
    query.plan(0)
    marker = Marker(query_id=query.query_id, run_id="a", micro_batch_id=0, source_digest="")
    settings = {"bootstrap.servers": query.hand.bootstrap, "transactional.id": f"decides-for-{query.sink_id}"}
    with Bridge() as bridge:
        decider = bridge.hold(Producer.connect(ProducerConfig.from_properties(settings), real_runtime()))

        async def decide() -> None:
            await decider.init_transactions()
            decider.begin_transaction()
            offsets = marker_offsets(marker, [query.topic])
            await decider.send_offsets_to_transaction(offsets, as_nobody(marker_group(query.sink_id)))

        bridge.run(decide())

        class Looking(DriverClient):
            looks = 0

            def read_markers(self) -> FoundMarkers:
                self.looks += 1
                if self.looks == 2:
                    bridge.run(decider.commit_transaction())
                return super().read_markers()

        with closing(Looking(query.settings)) as client:
            client.take_over()
            client.found = FoundMarkers(markers={query.topic: marker})  # as this driver has just decided
            TwoPhaseCommit(query.settings).clear(client)
            assert client.found == FoundMarkers(markers={query.topic: marker})
            assert client.looks >= 2
