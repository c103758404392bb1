"""A commit that takes longer than brokers leave a transaction open: nobody else is blamed for it, and nobody tries for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery, rows_of
from tests.pipeline.sink.looking import open_transactions
from tidelog.client import ClientError, ProduceFailed, ProducerFenced, RequestRefused, TransactionFailed
from tidelog.model import ErrorCode, TopicPartition
from tidelog.pipeline.sink.attempts import Attempts
from tidelog.pipeline.sink.batch_commit import BatchCommit
from tidelog.pipeline.sink.errors import SinkFailed, SinkFenced
from tidelog.pipeline.sink.ledger import FoundMarkers
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.runtime.real import real_runtime

BROKERS: Final = {"kafka.bootstrap.servers": "127.0.0.1:9092", "kafka.retry.backoff.ms": "0"}
TIMEOUT: Final = {"kafka.transaction.timeout.ms": "1000"}
FOUND: Final = FoundMarkers(markers={})
FENCED: Final = ProducerFenced("taken over, or timed out")
ADVICE: Final = r"open for {} s, .*kafka\.transaction\.timeout\.ms=1000: raise that, .*"
OF_A_QUERY: Final = ADVICE + r"maxOffsetsPerTrigger"


def attempts_of(tmp_path: Path, **options: str) -> Attempts:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    settings = SinkSettings.of_stream({**BROKERS, **TIMEOUT, "checkpointLocation": str(tmp_path), **options})
    return Attempts(settings, real_runtime())


def caused_by(error: ClientError) -> TransactionFailed:
    failed = TransactionFailed("the transaction must be aborted")
    failed.__cause__ = error
    return failed


@pytest.mark.parametrize(
    "error",
    [
        FENCED,
        caused_by(ProduceFailed(TopicPartition("t", 0), ErrorCode.INVALID_PRODUCER_EPOCH)),
        caused_by(RequestRefused(ErrorCode.TRANSACTION_ABORTABLE)),
        TransactionFailed("the coordinator has no such transaction any more; perhaps it timed out"),
    ],
)
def test_a_transaction_that_was_open_for_too_long_twice_is_told_with_what_to_change(
    error: ClientError, tmp_path: Path
) -> None:
    attempts = attempts_of(tmp_path)
    attempts.on_failure(error, FOUND, open_ms=1_500)
    with pytest.raises(SinkFailed, match=OF_A_QUERY.format(r"1\.7")) as told:
        attempts.on_failure(error, FOUND, open_ms=1_700)
    assert not isinstance(told.value, SinkFenced)


def test_who_is_fenced_in_time_is_told_of_the_other_driver(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path)
    attempts.on_failure(FENCED, FOUND, open_ms=900)
    with pytest.raises(SinkFenced, match="another driver has taken over"):
        attempts.on_failure(FENCED, FOUND, open_ms=900)


def test_trouble_of_another_kind_is_not_put_down_to_the_time_it_took(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path)
    for _ in range(3):
        attempts.on_failure(RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE), FOUND, open_ms=5_000)
    with pytest.raises(SinkFailed, match="MESSAGE_TOO_LARGE") as told:
        attempts.on_failure(ProduceFailed(TopicPartition("t", 0), ErrorCode.MESSAGE_TOO_LARGE), FOUND, open_ms=5_000)
    assert "timeout" not in str(told.value)


class LateCommit(BatchCommit):
    """Waits, with every attempt, until the coordinator has aborted the transaction."""

    def __init__(self, settings: SinkSettings, step: str, wait: Callable[[], None]) -> None:
        super().__init__(settings)
        self.attempt_count = 0
        original = getattr(self, step)

        def late(*arguments: Any) -> Any:
            answer = original(*arguments)
            self.attempt_count += 1
            wait()
            return answer

        setattr(self, step, late)


def until_aborted(hand: Hand, sink_id: str) -> Callable[[], None]:
    """Wait until brokers have heard of a transaction, and have ended it."""

    def is_listed() -> bool:
        return any(each.transactional_id == sink_id for each in open_transactions(hand.bootstrap))

    def wait() -> None:
        eventually(is_listed, "the transaction has begun")
        eventually(lambda: not is_listed(), "the transaction was aborted")

    return wait


@pytest.mark.slow
@pytest.mark.parametrize("step", ["send_marker", "send_source_offsets"])
def test_a_commit_that_always_takes_longer_than_its_transaction_may_fails_with_the_option(
    step: str, two_phase_hand: Hand, topic: str, tmp_path: Path
) -> None:
    two_phase_hand.create(topic)
    query = DrivenQuery(two_phase_hand.bootstrap, tmp_path, topic=topic, kafka__transaction__timeout__ms="1000")
    query.run_micro_batch(0, [b"0"])
    commit = LateCommit(query.settings, step, until_aborted(two_phase_hand, query.settings.sink_id))
    with pytest.raises(SinkFailed, match=OF_A_QUERY.format(r"\d+\.\d")) as told:
        commit.commit(query.write(1, [b"1"]), 1)
    assert not isinstance(told.value, SinkFenced)
    assert commit.attempt_count == 2
    query.run_micro_batch(1, [b"1"])
    assert [record.value for record in two_phase_hand.read(topic)] == [b"0", b"1"]
    query.close()


@pytest.mark.slow
def test_a_batch_job_that_takes_longer_than_its_transaction_may_fails_with_the_option(
    two_phase_hand: Hand, topic: str, tmp_path: Path
) -> None:
    two_phase_hand.create(topic)
    brokers = {"kafka.bootstrap.servers": two_phase_hand.bootstrap, "staging.dir": str(tmp_path)}
    settings = SinkSettings.of_batch({**brokers, **TIMEOUT, "topic": topic})
    commit = LateCommit(settings, "send_output", until_aborted(two_phase_hand, settings.sink_id))
    task = Task(partition=0, attempt=0, attempt_id=0, query_id=None, run_id=None, micro_batch_id=None)
    message = commit.task_write(iter([rows_of([b"a"])]), task)
    with pytest.raises(SinkFailed, match=(ADVICE + "write less in one job").format(r"\d+\.\d")) as told:
        commit.commit([message], None)
    assert not isinstance(told.value, SinkFenced)
    assert two_phase_hand.read(topic) == []
