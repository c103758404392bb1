"""What a driver tells, put together: rows, rates, lag, how much is done, and what became of each flow."""

from __future__ import annotations

from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.board import Board
from tidelog.pipeline.declared.progress import Distance, SourceProgress, between, distance, offsets_in
from tidelog.pipeline.declared.running import failure_sentence
from tidelog.pipeline.declared.state import FlowView

FLOWS = {"event": "flows", "flows": [{"name": "a", "target": "out"}, {"name": "b", "target": None}]}


def progress(flow: str, *, rows: int, lag: int | None, micro_batch_id: int = 0) -> dict[str, object]:
    return {
        "event": "progress", "flow": flow, "rows": rows, "lag": lag, "read": rows, "micro_batch_id": micro_batch_id,
        "duration_ms": 40, "at_ms": 1_000 + micro_batch_id,
    }  # fmt: skip


def test_flows_wait_until_something_is_heard_of_them() -> None:
    board = Board()
    board.on_event(FLOWS, 0)
    assert [(flow.name, flow.target, flow.state) for flow in board.views(0)] == [
        ("a", "out", state.WAITING),
        ("b", None, state.WAITING),
    ]


def test_micro_batches_add_up_and_the_lag_says_how_much_is_done() -> None:
    board = Board()
    board.on_event(FLOWS, 0)
    board.on_event(progress("a", rows=100, lag=300), 5_000)
    board.on_event(progress("a", rows=200, lag=100, micro_batch_id=1), 7_000)
    flow = board.views(7_000)[0]
    assert (flow.state, flow.rows, flow.lag, flow.progress) == (state.RUNNING, 300, 100, 0.75)
    assert (flow.micro_batch_id, flow.micro_batch_ms, flow.last_commit_ms) == (1, 40, 1_001)
    assert flow.rows_per_s == 150.0  # 300 rows in the two seconds since there was anything


def test_the_rate_is_that_of_the_last_seconds() -> None:
    board = Board()
    board.on_event(progress("a", rows=1_000, lag=0), 0)
    board.on_event(progress("a", rows=50, lag=0, micro_batch_id=1), 15_000)
    assert board.views(15_000)[0].rows_per_s == 5.0
    assert board.views(40_000)[0].rows_per_s == 0.0


def test_an_empty_micro_batch_is_no_commit() -> None:
    board = Board()
    board.on_event(progress("a", rows=0, lag=0), 0)
    flow = board.views(0)[0]
    assert (flow.last_commit_ms, flow.progress) == (None, 1.0)


def test_a_source_that_does_not_count_has_no_lag_and_no_bar() -> None:
    board = Board()
    board.on_event(progress("a", rows=7, lag=None), 0)
    flow = board.views(0)[0]
    assert (flow.rows, flow.lag, flow.progress) == (7, None, None)


def test_a_flow_that_was_tried_again_has_forgotten_why_it_failed() -> None:
    board = Board()
    board.on_event({"event": "flow", "flow": "a", "state": state.FAILED, "reason": "no broker"}, 0)
    assert board.views(0)[0].failure == "no broker"
    board.on_event({"event": "flow", "flow": "a", "state": state.RUNNING}, 0)
    assert board.views(0)[0].failure is None


def test_a_driver_that_is_started_again_finds_its_flows_waiting() -> None:
    board = Board()
    board.on_event(progress("a", rows=5, lag=1), 0)
    board.on_event({"event": "flow", "flow": "a", "state": state.FAILED, "reason": "too busy"}, 0)
    board.begin_again()
    flow = board.views(0)[0]
    assert (flow.state, flow.failure, flow.rows) == (state.WAITING, None, 5)


def test_what_ran_when_the_run_was_stopped_was_stopped_and_what_waited_was_skipped() -> None:
    board = Board()
    board.on_event(FLOWS, 0)
    board.on_event({"event": "flow", "flow": "a", "state": state.RUNNING}, 0)
    board.end(state.STOPPED)
    assert [flow.state for flow in board.views(0)] == [state.STOPPED, state.SKIPPED]


def test_nonsense_changes_nothing() -> None:
    board = Board()
    for event in ({}, {"event": "weather"}, {"event": "flows", "flows": 3}, {"event": "flows", "flows": [1]}):
        board.on_event(event, 0)
    assert board.views(0) == ()


def test_offsets_are_counted_over_topics_and_partitions() -> None:
    start, end, latest = '{"t":{"0":5}}', '{"t":{"0":8,"1":4}}', '{"t":{"0":10,"1":4},"u":{"0":1}}'
    sources = [SourceProgress(start=start, end=end, latest=latest)]
    assert distance(sources) == Distance(read=7, lag=3)


def test_what_our_source_adds_to_an_offset_is_no_topic() -> None:
    assert offsets_in('{"t":{"0":3},"@since":{"t":{"0":0}}}') == {"t": {"0": 3}}


def test_the_first_micro_batch_began_where_its_end_says() -> None:
    end = '{"t":{"0":30,"1":5},"@since":{"t":{"0":10,"1":5}}}'
    assert distance([SourceProgress(start="null", end=end, latest='{"t":{"0":31,"1":5}}')]) == Distance(read=20, lag=1)


def test_a_source_of_another_kind_has_no_distance() -> None:
    ours = SourceProgress(start='{"t":{"0":0}}', end='{"t":{"0":3}}', latest=None)
    for end in ('{"logOffset":3}', "7", None, "not json"):
        assert distance([ours, SourceProgress(start=None, end=end, latest=None)]) is None
    assert distance([]) is None
    assert distance([ours]) == Distance(read=3, lag=0)


def test_a_partition_that_fell_back_counts_for_nothing() -> None:
    assert between({"t": {"0": 9}}, {"t": {"0": 4}}) == 0


def test_the_sentence_of_a_failure_says_what_became_of_the_others() -> None:
    flows = (
        FlowView(name="a", state=state.FAILED, failure="topic 'x' does not exist"),
        FlowView(name="b", state=state.DONE),
        FlowView(name="c", state=state.SKIPPED),
        FlowView(name="d", state=state.SKIPPED),
    )
    said = failure_sentence("Run is FAILED", flows)
    assert said == "the flow a failed: topic 'x' does not exist (b went on to their end; c, d were not run)"
    assert failure_sentence("no Spark master answers", flows[1:]) == "no Spark master answers"
