"""An open transaction is known or it hangs: what the log of the coordinator says decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipeline.audit.planted import Planted, flipped, log_of
from tidelog.coordinator.transaction.records import state_record, tombstone
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import TopicPartition
from tidelog.pipeline.audit.claims import read_claims
from tidelog.pipeline.audit.transactions import Coordinators, OpenTransaction, judge, read_coordinators
from tidelog.records.builder import RecordBatchBuilder

ORDERS = TopicPartition("orders", 0)
FOUND = OpenTransaction(
    topic_partition=ORDERS,
    replica="1",
    producer_id=9,
    producer_epoch=2,
    first_offset=50,
    high_watermark=100,
    file="file",
    position=0,
)
ONGOING = TransactionState(
    transactional_id="id",
    producer_id=9,
    producer_epoch=2,
    timeout_ms=60_000,
    status=TransactionStatus.ONGOING,
    partitions=(ORDERS,),
)


def said(base_offset: int, *states: TransactionState | None, epoch: int = 0) -> bytes:
    """A batch of `__transaction_state`; None forgets the id."""
    builder = RecordBatchBuilder()
    for state in states:
        record = tombstone("id") if state is None else state_record(state, TransactionVersion.TWO)
        builder.append(timestamp_ms=0, key=record.key, value=record.value)
    return bytes(builder.build(base_offset, epoch))


def coordinators(tmp_path: Path, *replicas: list[bytes]) -> Coordinators:
    planted = Planted(tmp_path, brokers=range(1, len(replicas) + 1))
    planted.add("__transaction_state", *(log_of(batches) for batches in replicas))
    return read_coordinators(read_claims(planted.write(), None).transaction_logs)


@pytest.mark.parametrize(
    "status", [TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT]
)
def test_what_is_under_way_or_decided_and_not_told_yet_is_known(tmp_path: Path, status: TransactionStatus) -> None:
    assert judge(FOUND, coordinators(tmp_path, [said(0, replace(ONGOING, status=status))])) is None


@pytest.mark.parametrize(
    "last",
    [
        replace(ONGOING, status=TransactionStatus.COMPLETE_COMMIT),
        replace(ONGOING, status=TransactionStatus.COMPLETE_ABORT),
        replace(ONGOING, producer_id=10),
        None,
    ],
    ids=["committed", "aborted", "another-producer", "forgotten"],
)
def test_what_has_ended_hangs_where_no_marker_is(tmp_path: Path, last: TransactionState | None) -> None:
    found = judge(FOUND, coordinators(tmp_path, [said(0, ONGOING), said(1, last)]))
    assert found is not None
    assert "__transaction_state knows of no transaction of this producer under way" in found.what


def test_a_transaction_of_other_partitions_does_not_count(tmp_path: Path) -> None:
    elsewhere = replace(ONGOING, partitions=(TopicPartition("orders", 1),))
    found = judge(FOUND, coordinators(tmp_path, [said(0, elsewhere)]))
    assert found is not None
    assert "the transaction of 'id' under way is not in this partition" in found.what


def test_the_replica_of_the_last_epoch_is_believed(tmp_path: Path) -> None:
    ended = replace(ONGOING, status=TransactionStatus.COMPLETE_COMMIT)
    behind = [said(0, ONGOING), said(1, ONGOING), said(2, ONGOING)]
    assert judge(FOUND, coordinators(tmp_path, behind, [said(0, ONGOING), said(1, ended, epoch=1)])) is not None


def test_a_batch_that_cannot_be_believed_is_passed_over(tmp_path: Path) -> None:
    ended = said(1, replace(ONGOING, status=TransactionStatus.COMPLETE_COMMIT))
    assert judge(FOUND, coordinators(tmp_path, [said(0, ONGOING), flipped(ended, len(ended) - 3)])) is None


def test_nobody_to_ask_is_told() -> None:
    found = judge(FOUND, read_coordinators([]))
    assert found is not None
    assert "the directories hold no __transaction_state that could know of it" in found.what


def test_above_the_high_watermark_nothing_is_promised() -> None:
    assert judge(replace(FOUND, first_offset=100), read_coordinators([])) is None
