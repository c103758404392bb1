"""Which batches a read_committed consumer must not hand out."""

from __future__ import annotations

from tidelog.client.aborted import AbortedFilter, AbortedTransaction


def test_records_from_the_first_offset_to_the_abort_marker_are_aborted() -> None:
    aborted = AbortedFilter([AbortedTransaction(7, first_offset=10)])
    assert not aborted.is_aborted(producer_id=7, last_offset=9, is_transactional=True)
    assert aborted.is_aborted(producer_id=7, last_offset=12, is_transactional=True)
    aborted.on_marker(producer_id=7, last_offset=13, is_abort=True)
    assert not aborted.is_aborted(producer_id=7, last_offset=14, is_transactional=True)


def test_another_producers_records_between_are_kept() -> None:
    aborted = AbortedFilter([AbortedTransaction(7, first_offset=10)])
    assert aborted.is_aborted(producer_id=7, last_offset=10, is_transactional=True)
    assert not aborted.is_aborted(producer_id=8, last_offset=11, is_transactional=True)
    aborted.on_marker(producer_id=8, last_offset=12, is_abort=False)
    assert aborted.is_aborted(producer_id=7, last_offset=13, is_transactional=True)


def test_plain_records_of_the_same_producer_are_kept() -> None:
    aborted = AbortedFilter([AbortedTransaction(7, first_offset=0)])
    assert not aborted.is_aborted(producer_id=7, last_offset=3, is_transactional=False)


def test_a_producer_may_abort_twice_in_one_answer_whatever_the_order_of_the_list() -> None:
    aborted = AbortedFilter([AbortedTransaction(7, first_offset=20), AbortedTransaction(7, first_offset=0)])
    assert aborted.is_aborted(producer_id=7, last_offset=1, is_transactional=True)
    aborted.on_marker(producer_id=7, last_offset=2, is_abort=True)
    assert not aborted.is_aborted(producer_id=7, last_offset=10, is_transactional=True)
    assert aborted.is_aborted(producer_id=7, last_offset=20, is_transactional=True)


def test_a_transaction_whose_data_was_compacted_away_ends_at_its_marker() -> None:
    aborted = AbortedFilter([AbortedTransaction(7, first_offset=5)])
    aborted.on_marker(producer_id=7, last_offset=8, is_abort=True)
    assert not aborted.is_aborted(producer_id=7, last_offset=9, is_transactional=True)
