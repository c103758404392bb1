"""What an answer to a produced batch means."""

from __future__ import annotations

import pytest

from tidelog.client.verdict import Verdict, judge
from tidelog.model import ErrorCode


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, Verdict.ACKNOWLEDGED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Verdict.ACKNOWLEDGED),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.SPLIT),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY_UNCERTAIN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.RETRY_UNCERTAIN),
        (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.RETRY_UNCERTAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.RETRY_REFUSED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.RETRY_REFUSED),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.RETRY_UNCERTAIN),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.RETRY_UNCERTAIN),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.RETRY_OUT_OF_SEQUENCE),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.RETRY_OUT_OF_SEQUENCE),
        (ErrorCode.INVALID_RECORD, Verdict.FAILED),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FAILED),
    ],
)
def test_verdict_over_a_batch_of_several_records(code: ErrorCode, verdict: Verdict) -> None:
    assert judge(code, record_count=2, is_idempotent=True, may_retry=True) is verdict


def test_a_single_record_too_large_fails() -> None:
    code = ErrorCode.MESSAGE_TOO_LARGE
    assert judge(code, record_count=1, is_idempotent=True, may_retry=True) is Verdict.FAILED


def test_without_retries_left_a_retriable_error_fails() -> None:
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert judge(code, record_count=1, is_idempotent=True, may_retry=False) is Verdict.FAILED


def test_sequence_errors_mean_nothing_to_a_producer_without_numbers() -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert judge(code, record_count=1, is_idempotent=False, may_retry=True) is Verdict.FAILED
