"""A prepared transaction as text."""

from __future__ import annotations

import pytest

from tidelog.client import PreparedTransaction
from tidelog.model import ProducerIdentity


@pytest.mark.parametrize("transactional_id", ["orders", "a:b:c", "Bestellungen für 7 €"])
def test_what_was_written_down_is_read_again(transactional_id: str) -> None:
    prepared = PreparedTransaction(transactional_id=transactional_id, producer_id=2**40, producer_epoch=12)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    assert prepared.producer == ProducerIdentity(2**40, 12)


def test_an_empty_transaction_has_no_producer() -> None:
    empty = PreparedTransaction.parse(str(PreparedTransaction(transactional_id="orders")))
    assert (empty.transactional_id, empty.producer) == ("orders", None)


@pytest.mark.parametrize("text", ["", "orders", "1:2", "1:2:", "x:2:orders", "1::orders"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        PreparedTransaction.parse(text)
