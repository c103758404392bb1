"""Drivers and tasks of mode 2pc that should not be there any more: they wake up late, and must do no harm."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.sink.looking import ask
from tests.pipeline.sink.two_phase_rig import (
    DECIDED_AT,
    PATIENCE_S,
    POINTS,
    Driver,
    Query,
    drive,
    expected,
    rows,
    swept,
)
from tidelog.client import Admin, Producer, ProducerConfig, TransactionDescription
from tidelog.client.bridge import Bridge
from tidelog.pipeline.sink.errors import SinkFailed
from tidelog.pipeline.sink.two_phase import TwoPhaseCommit
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

FROM_THE_MANIFEST_ON = [point for point in POINTS if POINTS.index(point) >= POINTS.index("after write_manifest")]


@pytest.mark.parametrize("point", swept(POINTS))
def test_a_driver_that_wakes_up_after_another_has_replayed_its_micro_batch_doubles_nothing(
    query: Query, point: str
) -> None:
    with Driver(query, "commit", query.write(0, run="a"), 0, waits=point) as older:
        older.arrived()
        assert drive(query, "commit", query.write(0, run="b"), 0) == "done"
        assert drive(query, "commit", query.write(1, run="b"), 1) == "done"
        told = older.go_on().ended()
    assert told == "done" or told.startswith(("SinkFenced", "CheckpointChanged", "RowsGone: the rows")), told
    assert drive(query, "commit", query.write(2, run="b"), 2) == "done"
    assert query.committed_values() == expected(range(3))
    assert (query.manifests(), query.position()) == ([], 3)


@pytest.mark.parametrize("point", ["before clear", "adopted", "about to abort"])
def test_a_driver_that_is_late_to_abort_hits_nothing_that_its_successor_has_decided(query: Query, point: str) -> None:
    newer = query.write(0, run="b")
    with Driver(query, "abort", [None, None], 0, waits=point) as older:
        older.arrived()
        assert drive(query, "commit", newer, 0) == "done"
        assert older.go_on().ended() == "done"
    assert query.committed_values() == expected(range(1))


@pytest.mark.parametrize("point", ["before clear", "adopted", "about to abort"])
def test_a_driver_that_is_late_to_abort_hits_nothing_while_its_successor_decides(query: Query, point: str) -> None:
    newer = query.write(0, run="b")
    with Driver(query, "abort", [None, None], 0, waits=point) as older:
        older.arrived()
        with Driver(query, "commit", newer, 0, waits="after decide") as successor:
            successor.arrived()
            assert older.go_on().ended() == "done"
            assert successor.go_on().ended() == "done"
    assert query.committed_values() == expected(range(1))


def test_a_driver_that_is_late_to_settle_makes_nothing_void_that_its_successor_decides(query: Query) -> None:
    newer = query.write(0, run="b")
    with Driver(query, "abort", [None, None], 0, waits="before settle") as older:
        older.arrived()
        with Driver(query, "commit", newer, 0, waits="after write_manifest", dies="after decide") as successor:
            successor.arrived()
            assert older.go_on().ended() == "done"
            assert successor.go_on().ended() == "died"
    assert drive(query, "commit", query.write(0, run="c"), 0) == "done"
    assert query.committed_values() == expected(range(1))


def test_rows_that_were_aborted_before_the_decision_are_missed_in_time(query: Query) -> None:
    messages = query.write(0, run="a")
    with Driver(query, "commit", messages, 0, waits="before adopt") as older:
        older.arrived()
        assert drive(query, "abort", [None, None], 0) == "done"
        assert older.go_on().ended().startswith("RowsGone: the rows of 2 task(s) are gone")
    assert query.committed_values() == []
    assert drive(query, "commit", query.write(0, run="b"), 0) == "done"
    assert query.committed_values() == expected(range(1))


@pytest.mark.parametrize("run", ["a", "of old"])
@pytest.mark.parametrize("point", swept(FROM_THE_MANIFEST_ON))
def test_a_late_attempt_neither_aborts_nor_extends_what_is_decided(query: Query, point: str, run: str) -> None:
    with Driver(query, "commit", query.write(0, run="a"), 0, waits=point) as driver:
        driver.arrived()
        if POINTS.index(point) < DECIDED_AT:
            late = query.write(0, run=run)
            names = {message.prepared.transactional_id for message in late if message.prepared is not None}
            assert len(names) == 2
        else:
            late = query.write(1, run=run)  # so that it does not see at once that it is late
        assert all(message.prepared is not None for message in late)
        assert driver.go_on().ended() == "done"
    assert drive(query, "commit", query.write(0, run="c"), 0) == "done"
    assert query.committed_values() == expected(range(1))


class Stuck:
    """Rows of a task that stops in the middle until it is told to go on."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.has_stopped = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        many = pa.RecordBatch.from_pydict({"value": pa.array([b"zombie" * 100] * 20_000, pa.binary())})
        yield many  # so much that it is sent before anything else is asked for
        self.has_stopped.set()
        assert self.may_go_on.wait(PATIENCE_S)
        yield many


def test_a_task_that_sleeps_while_its_micro_batch_is_committed_writes_nothing_that_counts(query: Query) -> None:
    stuck = Stuck()
    query.plan(0)
    with ThreadPoolExecutor(1) as threads:
        task = query.task(0, 0, run="a", attempt=7)
        zombie = threads.submit(TwoPhaseCommit(query.settings).task_write, iter(stuck), task)
        try:
            assert stuck.has_stopped.wait(PATIENCE_S)
            eventually(query.open_ids, "the zombie has written something")
            assert drive(query, "commit", query.write(0, run="a"), 0) == "done"
        finally:
            stuck.may_go_on.set()
        outcome = zombie.exception(PATIENCE_S)
    assert outcome is None or isinstance(outcome, SinkFailed)
    assert drive(query, "commit", query.write(1, run="a"), 1) == "done"
    assert query.committed_values() == expected(range(2))


class Late:
    """Rows of a task that has asked whether it is needed, and has written nothing yet."""

    def __init__(self, task_rows: Iterator[pa.RecordBatch]) -> None:
        self._rows = task_rows
        self.may_go_on = threading.Event()
        self.has_stopped = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.has_stopped.set()
        assert self.may_go_on.wait(PATIENCE_S)
        yield from self._rows


def test_a_task_that_opens_its_transaction_when_all_is_decided_leaves_nothing_open(query: Query) -> None:
    late = Late(rows(0, 0))
    query.plan(0)
    with ThreadPoolExecutor(1) as threads:
        task = query.task(0, 0, run="a", attempt=7)
        zombie = threads.submit(TwoPhaseCommit(query.settings).task_write, iter(late), task)
        try:
            assert late.has_stopped.wait(PATIENCE_S)
            assert query.open_ids() == []
            assert drive(query, "commit", query.write(0, run="a"), 0) == "done"
        finally:
            late.may_go_on.set()
        assert zombie.result(PATIENCE_S).prepared is None
    assert query.committed_values() == expected(range(1))  # which waits until nothing is open


@contextmanager
def left_to_time_out(query: Query, name: str) -> Iterator[None]:
    """A transaction as others write it, which is open, and has a second left."""
    properties = {
        "bootstrap.servers": query.hand.bootstrap,
        "transactional.id": name,
        "transaction.timeout.ms": "1000",
    }

    async def begin(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(query.topic, b"never")

    with Bridge() as bridge:
        producer = bridge.hold(Producer.connect(ProducerConfig.from_properties(properties), real_runtime()))
        bridge.run(begin(producer), timeout_s=PATIENCE_S)
        yield


def test_a_decided_micro_batch_survives_an_outage_that_is_longer_than_the_timeout(query: Query) -> None:
    impatient = Query(query.hand, query.topic, query.checkpoint, options=(("kafka.transaction.timeout.ms", "1000"),))
    assert drive(impatient, "commit", impatient.write(0, run="a"), 0, dies="after decide") == "died"
    control = f"control-{query.topic}"
    with left_to_time_out(query, control):
        eventually(lambda: is_aborted(query, control), "a transaction that may time out is aborted")
    assert len(impatient.open_ids()) == 2
    assert drive(impatient, "commit", impatient.write(0, run="b"), 0) == "done"
    assert query.committed_values() == expected(range(1))


def is_aborted(query: Query, name: str) -> bool:
    async def look(admin: Admin) -> bool:
        found = (await admin.transactions.describe([name]))[name]
        return isinstance(found, TransactionDescription) and found.state == "CompleteAbort"

    return ask(query.hand.bootstrap, look)
