"""What a coordinator's code means."""

from __future__ import annotations

import pytest

from tidelog.client.transactions.answers import Meaning, meaning_for_batch, meaning_of, worst
from tidelog.model import ErrorCode


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.NONE, Meaning.DONE),
        (ErrorCode.NOT_COORDINATOR, Meaning.ASK_ELSEWHERE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Meaning.ASK_ELSEWHERE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Meaning.ASK_AGAIN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Meaning.ASK_AGAIN),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Meaning.ASK_AGAIN_SOON),
        (ErrorCode.PRODUCER_FENCED, Meaning.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Meaning.FENCED),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Meaning.RENEW),
        (ErrorCode.TRANSACTION_ABORTABLE, Meaning.ABORT),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Meaning.ABORT),
        (ErrorCode.ILLEGAL_GENERATION, Meaning.ABORT),
        (ErrorCode.FENCED_INSTANCE_ID, Meaning.ABORT),
        (ErrorCode.INVALID_TXN_STATE, Meaning.REFUSED),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.REFUSED),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, Meaning.REFUSED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Meaning.REFUSED),
    ],
)
def test_what_a_coordinator_says(code: ErrorCode, meaning: Meaning) -> None:
    assert meaning_of(code) is meaning


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, Meaning.ABORT),
        (ErrorCode.INVALID_TXN_STATE, Meaning.ABORT),
        (ErrorCode.TRANSACTION_ABORTABLE, Meaning.ABORT),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Meaning.ABORT),
        (ErrorCode.MESSAGE_TOO_LARGE, Meaning.ABORT),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Meaning.RENEW),
        (ErrorCode.PRODUCER_FENCED, Meaning.FENCED),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.REFUSED),
    ],
)
def test_what_a_leader_says_of_a_batch(code: ErrorCode, meaning: Meaning) -> None:
    assert meaning_for_batch(code) is meaning


@pytest.mark.parametrize(
    ("codes", "decisive"),
    [
        ([], ErrorCode.NONE),
        ([ErrorCode.NONE, ErrorCode.NONE], ErrorCode.NONE),
        ([ErrorCode.NONE, ErrorCode.NOT_COORDINATOR], ErrorCode.NOT_COORDINATOR),
        ([ErrorCode.NOT_COORDINATOR, ErrorCode.ILLEGAL_GENERATION], ErrorCode.ILLEGAL_GENERATION),
        (
            [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_the_code_that_decides_about_many(codes: list[ErrorCode], decisive: ErrorCode) -> None:
    assert worst(codes) is decisive
