"""Mode batch against real brokers, without Spark: the calls that Spark makes, in the order that each story needs."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand, Row
from tests.pipeline.sink.driving import DrivenQuery
from tests.pipeline.sink.looking import committed, lag, membership, open_transactions
from tests.tiers import rest_proven
from tidelog.client import RequestRefused
from tidelog.model import ErrorCode, TopicPartition
from tidelog.pipeline.sink.batch_commit import BatchCommit
from tidelog.pipeline.sink.driver_client import driver_client
from tidelog.pipeline.sink.errors import (
    BadRows,
    CheckpointChanged,
    SinkFailed,
    SinkFenced,
    StagingFailed,
    TopicMissing,
)
from tidelog.pipeline.sink.ledger import marker_group

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Start = Callable[..., DrivenQuery]


@pytest.fixture
def start(cluster: TidelogCluster, tmp_path: Path) -> Iterator[Start]:
    """Begin runs of a query; all on one checkpoint unless said otherwise."""
    begun: list[DrivenQuery] = []

    def begin(run: str = "run-1", *, checkpoint: str = "checkpoint", **options: str) -> DrivenQuery:
        begun.append(DrivenQuery(cluster.bootstrap, tmp_path / checkpoint, run=run, **options))
        return begun[-1]

    yield begin
    for query in begun:
        query.close()


def values(hand: Hand, topic: str) -> list[bytes]:
    return [record.value or b"" for record in hand.read(topic)]


def test_a_micro_batch_becomes_visible_with_its_commit_and_its_files_go(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic, 3)
    query = start(topic=topic)
    messages = query.write(0, [b"a", b"b"], [b"c"])
    assert (values(hand, topic), len(query.staged())) == ([], 2)
    query.mode.commit(messages, 0)
    assert sorted(values(hand, topic)) == [b"a", b"b", b"c"]
    assert query.staged() == []


def test_micro_batches_follow_each_other_over_one_producer(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic, 2)
    query = start(topic=topic)
    for micro_batch_id in range(5):
        query.run_micro_batch(micro_batch_id, [b"%d" % micro_batch_id], [b"%d" % micro_batch_id])
    assert Counter(values(hand, topic)) == {b"%d" % index: 2 for index in range(5)}


def test_a_replay_writes_nothing_whoever_replays_it(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    first = start(topic=topic)
    first.run_micro_batch(0, [b"a"])
    first.run_micro_batch(1, [b"b"])
    first.run_micro_batch(1, [b"b"])
    start("run-2", topic=topic).run_micro_batch(1, [b"other rows of a plan that is not deterministic"])
    assert values(hand, topic) == [b"a", b"b"]


def test_a_replay_leaves_nothing_staged(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    start(topic=topic).run_micro_batch(0, [b"a"])
    second = start("run-2", topic=topic)
    second.run_micro_batch(0, [b"a"])
    assert second.staged() == []


def test_what_a_foreign_query_marked_under_the_same_sink_id_is_not_skipped(
    hand: Hand, topic: str, start: Start
) -> None:
    hand.create(topic)
    for number, micro_batch_id in enumerate((0, 1, 0, 1)):
        query = start(
            f"run-{number // 2}",
            checkpoint=f"checkpoint-{number // 2}",
            topic=topic,
            sink__id=topic,
            query_id=f"query-{number // 2}",
        )
        query.run_micro_batch(micro_batch_id, [b"%d" % number])
    assert values(hand, topic) == [b"0", b"1", b"2", b"3"]


def test_a_second_driver_fences_the_first_which_is_told_the_sink_id(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    first, second = (
        start(topic=topic, sink__id=f"sink-of-{topic}"),
        start("run-2", topic=topic, sink__id=f"sink-of-{topic}"),
    )
    first.run_micro_batch(0, [b"a"])
    stale = first.write(1, [b"stale"])
    second.run_micro_batch(1, [b"b"])
    with pytest.raises(SinkFenced, match=rf"sink id 'sink-of-{topic}'.*only one query at a time"):
        first.mode.commit(stale, 1)
    first.mode.abort(stale, 1)
    second.run_micro_batch(2, [b"c"])
    assert values(hand, topic) == [b"a", b"b", b"c"]


def test_a_driver_that_came_back_after_another_one_does_not_disturb_it(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    first = start(topic=topic)
    first.run_micro_batch(0, [b"a"])
    second = start("run-2", topic=topic)
    second.run_micro_batch(1, [b"b"])
    late = first.write(1, [b"late"])
    with pytest.raises(SinkFenced):
        first.mode.commit(late, 1)
    messages = second.write(2, [b"c"])
    second.mode.commit(messages, 2)  # its producer was left alone
    assert values(hand, topic) == [b"a", b"b", b"c"]


def test_another_process_of_the_same_driver_may_go_on(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    here, there = start("run-1", topic=topic), start("run-1", topic=topic, kafka__client__id="another process")
    for micro_batch_id, query in enumerate((here, there, here, here, there)):
        query.run_micro_batch(micro_batch_id, [b"%d" % micro_batch_id])
    assert values(hand, topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_process_that_has_served_an_earlier_run_goes_on_with_the_next(hand: Hand, topic: str, start: Start) -> None:
    """What it knows is old: another process has committed for that run since, and died before Spark heard of it."""
    hand.create(topic)
    start("run-1", topic=topic, kafka__client__id="a process").run_micro_batch(0, [b"0"])
    start("run-1", topic=topic, kafka__client__id="one that dies").run_micro_batch(1, [b"1"])
    again = start("run-2", topic=topic, kafka__client__id="a process")
    again.run_micro_batch(1, [b"1"])
    again.run_micro_batch(2, [b"2"])
    assert values(hand, topic) == [b"0", b"1", b"2"]


def test_the_source_offsets_are_committed_for_a_group_whose_lag_is_true(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    source = hand.create(f"{topic}-source", 2)
    hand.send(source, [Row(b"x", partition=index % 2) for index in range(10)])
    query = start(topic=topic, queryName=f"group-of-{topic}")
    query.plan(0, {source: {"0": 5, "1": 2}}, {"no-such-topic": {"0": 7}}, {"logOffset": 3})
    query.run_micro_batch(0, [b"a"])
    group = f"group-of-{topic}"
    assert committed(hand.bootstrap, group) == {TopicPartition(source, 0): 5, TopicPartition(source, 1): 2}
    assert lag(hand.bootstrap, group) == 3
    assert committed(hand.bootstrap, marker_group(query.settings.sink_id)) == {TopicPartition(topic, 0): 1}


def test_no_group_is_committed_where_none_is_wanted(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic, queryName=topic, offsets__group="none")
    query.plan(0, {topic: {"0": 0}})
    query.run_micro_batch(0, [b"a"])
    assert committed(hand.bootstrap, topic) == {}


def test_a_group_that_has_members_is_named_with_the_option(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic, offsets__group=f"group-of-{topic}")
    query.plan(0, {topic: {"0": 0}})
    messages = query.write(0, [b"a"])
    told = rf"group 'group-of-{topic}' has members: set the option offsets\.group"
    with membership(hand.bootstrap, f"group-of-{topic}", topic), pytest.raises(SinkFailed, match=told):
        query.mode.commit(messages, 0)
    query.run_micro_batch(0, [b"b"])
    assert values(hand, topic) == [b"b"]


def test_a_time_that_brokers_do_not_grant_is_named_with_the_option(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic, kafka__transaction__timeout__ms="99999999")
    with pytest.raises(SinkFailed, match=r"kafka\.transaction\.timeout\.ms=99999999 is more than"):
        query.run_micro_batch(0, [b"a"])


def test_a_micro_batch_without_rows_moves_the_group_and_its_replay_nothing(
    hand: Hand, topic: str, start: Start
) -> None:
    hand.create(topic)
    query = start(topic=topic, queryName=f"group-of-{topic}")
    query.plan(0, {topic: {"0": 0}})
    query.run_micro_batch(0, [])
    assert committed(hand.bootstrap, f"group-of-{topic}") == {TopicPartition(topic, 0): 0}
    start("run-2", topic=topic).run_micro_batch(0, [b"rows that were not there before"])
    assert values(hand, topic) == []


def test_rows_choose_their_topics_and_partitions_and_bring_headers_keys_and_nulls(
    hand: Hand, topic: str, start: Start
) -> None:
    one, other = hand.create(f"{topic}-one", 4), hand.create(f"{topic}-other", 4)
    headers = [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    rows: list[dict[str, Any]] = [
        {"topic": one, "partition": 2, "key": b"k", "value": b"v", "headers": headers},
        {"topic": other, "partition": None, "key": b"21", "value": None, "headers": None},
        {"topic": one, "partition": 2, "key": None, "value": b"w", "headers": []},
    ]
    start().run_micro_batch(0, rows)
    found = [(r.topic_partition.index, r.key, r.value, r.headers) for r in hand.read(one)]
    assert found == [(2, b"k", b"v", (("h", b"1"), ("n", None))), (2, None, b"w", ())]
    by_key = (-973932308 & 0x7FFFFFFF) % 4  # what Kafka's own partitioner says of the key 21
    assert [(r.topic_partition.index, r.key, r.value) for r in hand.read(other)] == [(by_key, b"21", None)]


def test_the_marker_is_found_whatever_topics_the_rows_went_to(hand: Hand, topic: str, start: Start) -> None:
    one, other = hand.create(f"{topic}-one"), hand.create(f"{topic}-other")
    first = start()
    first.run_micro_batch(0, [{"topic": one, "value": b"0"}])
    first.run_micro_batch(1, [{"topic": other, "value": b"1"}])
    start("run-2").run_micro_batch(1, [{"topic": one, "value": b"again"}])
    assert (values(hand, one), values(hand, other)) == ([b"0"], [b"1"])


def test_a_topic_that_does_not_exist_is_named_within_seconds(start: Start, topic: str) -> None:
    with pytest.raises(TopicMissing, match=rf"topic '{topic}', named by the option topic"):
        start(topic=topic).write(0, [b"a"])


@pytest.mark.parametrize("mode", rest_proven(["batch", "at-least-once"]))
def test_a_topic_that_is_deleted_while_it_is_written_to_is_named_and_not_waited_for(
    hand: Hand, topic: str, start: Start, mode: str
) -> None:
    hand.create(topic)
    query = start(topic=topic, commit__mode=mode)
    query.run_micro_batch(0, [b"0"])
    staged = query.write(1, [b"1"]) if mode == "batch" else []
    hand.delete(topic)
    with pytest.raises(TopicMissing, match=f"topic '{topic}', named by the option topic .* does not exist"):
        query.mode.commit(staged or query.write(1, [b"1"]), 1)
    left = [each for each in open_transactions(hand.bootstrap) if each.transactional_id == query.settings.sink_id]
    assert left == []


def test_rows_that_cannot_be_written_are_told_and_leave_nothing(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic, 2)
    query = start(topic=topic)
    with pytest.raises(BadRows, match=rf"topic '{topic}'.*'partition' names 7.*0 to 1"):
        query.write(0, [{"partition": 7, "value": b"v"}])
    with pytest.raises(BadRows, match="a row has no topic"):
        start("run-2", checkpoint="other").write(0, [{"topic": None, "value": b"v"}])
    assert query.staged() == []


def test_a_file_that_is_gone_or_damaged_fails_the_commit_and_leaves_no_row(
    hand: Hand, topic: str, start: Start
) -> None:
    hand.create(topic)
    query = start(topic=topic)
    messages = query.write(0, [b"a" * 100], [b"b" * 100])
    (query.settings.staging / query.staged()[1]).unlink()
    with pytest.raises(StagingFailed, match=r"cannot read .*staging\.dir"):
        query.mode.commit(messages, 0)
    damaged = query.write(0, [b"c" * 100])
    file = query.settings.staging / next(name for name in query.staged() if name.startswith("0-0-3-"))
    file.write_bytes(file.read_bytes().replace(b"ccc", b"cdc", 1))
    with pytest.raises(StagingFailed, match="is damaged"):
        query.mode.commit(damaged, 0)
    query.run_micro_batch(0, [b"d"])
    assert (values(hand, topic), query.staged()) == ([b"d"], [])


def test_a_full_disk_fails_the_task_with_the_option_and_loses_nothing(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = [b"%d" % index + b"x" * 1000 for index in range(500)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StagingFailed, match=r"sink-staging .*make room there, or set the option staging\.dir"):
            query.write(0, rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    query.mode.abort([None], 0)
    assert query.staged() == []
    query.run_micro_batch(0, rows)
    assert values(hand, topic) == rows


def test_a_topic_may_grow_while_the_query_runs(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic)
    query.run_micro_batch(0, [b"0"])
    hand.grow(topic, 3)
    query.run_micro_batch(1, [b"1"])
    # The tasks of another worker know of it at once.
    monitored = start(topic=topic, kafka__bootstrap__servers=",".join(reversed(hand.bootstrap.split(","))))
    monitored.run_micro_batch(2, [{"partition": index, "value": b"2"} for index in range(3)])
    assert Counter(values(hand, topic)) == {b"0": 1, b"1": 1, b"2": 3}


def test_leftovers_of_attempts_and_drivers_that_died_go_with_the_next_commit(
    hand: Hand, topic: str, start: Start
) -> None:
    hand.create(topic)
    died = start(topic=topic)
    died.write(0, [b"never committed"])
    (died.settings.staging / "0-3-9-0abc.staged.tmp").write_bytes(b"half a file")
    (died.settings.staging / "something else").write_bytes(b"")
    (died.settings.staging / "1-0-7-0abc.staged").write_bytes(b"of a task that is ahead")
    query = start("run-2", topic=topic)
    query.run_micro_batch(0, [b"a"])
    assert query.staged() == ["1-0-7-0abc.staged", "something else"]
    assert values(hand, topic) == [b"a"]


def test_abort_takes_back_what_is_staged_and_nothing_that_is_decided(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic)
    messages = query.write(0, [b"a"], [b"b"])
    query.mode.abort([messages[0], None], 0)
    assert len(query.staged()) == 1
    query.run_micro_batch(0, [b"c"])
    query.mode.abort(messages, 0)
    assert values(hand, topic) == [b"c"]


def test_a_checkpoint_that_was_changed_by_hand_is_noticed(hand: Hand, topic: str, start: Start) -> None:
    hand.create(topic)
    query = start(topic=topic)
    for micro_batch_id in range(3):
        query.run_micro_batch(micro_batch_id, [b"%d" % micro_batch_id])
    with pytest.raises(CheckpointChanged, match=r"micro-batch 1 is to be written, and 2 was written already"):
        start("run-2", topic=topic).run_micro_batch(1, [b"again"])
    (query.checkpoint / "offsets" / "2").unlink()
    changed = start("run-3", topic=topic)
    changed.plan(2, {"source": {"0": 99}})
    with pytest.raises(CheckpointChanged, match="other source offsets"):
        changed.run_micro_batch(2, [b"other"])
    assert values(hand, topic) == [b"0", b"1", b"2"]


class Crashed(BaseException):
    """The driver is gone at this point."""


class DyingCommit(BatchCommit):
    """Ends where it is told to, before or after a step, as a killed process does: without a word to the brokers."""

    def __init__(self, query: DrivenQuery, step: str, *, is_after: bool) -> None:
        super().__init__(query.settings)
        original = getattr(self, step)

        def dying(*arguments: Any) -> Any:
            if is_after:
                original(*arguments)
            raise Crashed(step)

        setattr(self, step, dying)


STEPS = ["take_over", "is_decided", "begin", "send_output", "send_marker", "send_source_offsets", "decide", "clean_up"]


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_may_die_at_any_step(
    step: str, is_after: bool, hand: Hand, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who is killed does not close its connections, nor end its transaction.
    monkeypatch.setattr("tidelog.pipeline.sink.batch_commit.forget_driver_client", lambda _settings: None)
    hand.create(topic, 2)
    first = start(topic=topic)
    first.run_micro_batch(0, [b"0"], [b"0"])
    dying = DyingCommit(first, step, is_after=is_after)
    with pytest.raises(Crashed):
        dying.commit(first.write(1, [b"1"], [b"1"]), 1)
    second = start("run-2", topic=topic)
    second.run_micro_batch(1, [b"1"], [b"1"])
    second.run_micro_batch(2, [b"2"], [b"2"])
    assert Counter(values(hand, topic)) == {b"0": 2, b"1": 2, b"2": 2}
    assert second.staged() == []
    assert not [each for each in open_transactions(hand.bootstrap) if each.transactional_id == second.settings.sink_id]


def test_the_position_moves_with_the_rows_and_not_before(
    hand: Hand, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a driver that dies in between leaves a group that has read what nobody has written."""
    monkeypatch.setattr("tidelog.pipeline.sink.batch_commit.forget_driver_client", lambda _settings: None)
    hand.create(topic)
    source = hand.create(f"{topic}-source")
    hand.send(source, [b"x"] * 10)
    group, position = f"group-of-{topic}", TopicPartition(source, 0)
    first = start(topic=topic, queryName=group)
    for micro_batch_id, end in enumerate([2, 5]):
        first.plan(micro_batch_id, {source: {"0": end}})
    first.run_micro_batch(0, [b"0"])
    for run, step in {"run-1": "send_source_offsets", "run-2": "take_over"}.items():
        query = start(run, topic=topic, queryName=group)
        with pytest.raises(Crashed):
            DyingCommit(query, step, is_after=True).commit(query.write(1, [b"1"]), 1)
        assert (values(hand, topic), committed(hand.bootstrap, group)) == ([b"0"], {position: 2})
    start("run-3", topic=topic, queryName=group).run_micro_batch(1, [b"1"])
    assert (values(hand, topic), committed(hand.bootstrap, group)) == ([b"0", b"1"], {position: 5})


def test_markers_are_not_read_while_a_decision_may_be_on_its_way(
    hand: Hand, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who read the old one would clear away, or write again, what is being decided."""
    monkeypatch.setattr("tidelog.pipeline.sink.batch_commit.forget_driver_client", lambda _settings: None)
    hand.create(topic)
    first = start(topic=topic)
    first.run_micro_batch(0, [b"0"])
    with pytest.raises(Crashed):
        DyingCommit(first, "send_marker", is_after=True).commit(first.write(1, [b"1"]), 1)
    second = start("run-2", topic=topic, kafka__default__api__timeout__ms="1500")
    with pytest.raises(RequestRefused) as told:
        driver_client(second.settings).read_markers()
    assert told.value.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    second.run_micro_batch(1, [b"1"])
    assert [marker.micro_batch_id for marker in driver_client(second.settings).read_markers().markers.values()] == [1]
