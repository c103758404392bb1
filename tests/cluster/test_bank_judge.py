"""The judge of the bank finds what it is there to find."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.cluster.bank import Part, judge

MOVES = {0: -5, 1: 5}


@dataclass
class Book:
    book: dict[str, str]


def part(transfer: str, account: int, *, is_aborted: bool = False) -> Part:
    return Part(transfer, account, MOVES, is_aborted)


def whole(*transfers: str) -> dict[int, list[Part]]:
    return {account: [part(each, account) for each in transfers] for account in MOVES}


DONE = Book({"a.1.0": "commit done", "a.1.1": "abort done", "a.1.2": "commit", "a.1.3": "failed"})


def test_what_was_done_is_there_and_what_nobody_knows_may_be() -> None:
    assert judge(whole("a.1.0", "a.1.2"), [DONE])["seen"] == 2
    assert judge(whole("a.1.0"), [DONE])["seen"] == 1


def test_a_transfer_that_is_lost_is_found() -> None:
    with pytest.raises(AssertionError, match=r"a\.1\.0 is lost"):
        judge(whole("a.1.2"), [DONE])


def test_a_transfer_of_which_a_part_is_missing_is_found() -> None:
    with pytest.raises(AssertionError, match=r"a\.1\.2 .* is torn or doubled"):
        judge({0: [part("a.1.0", 0), part("a.1.2", 0)], 1: [part("a.1.0", 1)]}, [DONE])


def test_a_transfer_that_is_there_twice_is_found() -> None:
    with pytest.raises(AssertionError, match=r"a\.1\.0 .* is torn or doubled"):
        judge(whole("a.1.0", "a.1.0"), [DONE])


@pytest.mark.parametrize("name", ["a.1.1", "a.1.3"])
def test_a_transfer_that_was_aborted_and_is_there_is_found(name: str) -> None:
    with pytest.raises(AssertionError, match="and is there"):
        judge(whole("a.1.0", name), [DONE])


def test_a_record_that_was_meant_to_be_aborted_is_found() -> None:
    with pytest.raises(AssertionError, match="account 0 has"):
        judge({0: [part("a.1.2", 0, is_aborted=True)], 1: [part("a.1.2", 1)]}, [])


def test_transfers_out_of_order_are_found() -> None:
    with pytest.raises(AssertionError, match=r"a\.1\.0 out of order"):
        judge(whole("a.1.2", "a.1.0"), [DONE])
    with pytest.raises(AssertionError, match=r"a\.1\.2 out of order"):
        judge(whole("a.2.0", "a.1.2"), [Book({"a.2.0": "commit done", "a.1.2": "commit"})])
