"""What an older connection still brings is told from what a newer one sends again."""

from __future__ import annotations

from tidelog.broker.mail_order import SENDERS_MAX, MailOrder


def test_a_sender_may_go_on_by_the_same_connection_and_by_later_ones() -> None:
    order = MailOrder[int]()
    assert [order.is_in_order(9, connection) for connection in (5, 5, 7, 7, 12)] == [True] * 5


def test_what_an_older_connection_brings_is_late() -> None:
    order = MailOrder[int]()
    order.is_in_order(9, 7)
    assert not order.is_in_order(9, 5)
    assert order.is_in_order(9, 7)


def test_senders_do_not_disturb_each_other() -> None:
    order = MailOrder[int]()
    order.is_in_order(9, 7)
    assert order.is_in_order(8, 5)


def test_only_those_are_remembered_that_were_heard_of_last() -> None:
    order = MailOrder[int]()
    for sender in range(SENDERS_MAX):
        order.is_in_order(sender, 7)
    order.is_in_order(0, 7)
    order.is_in_order(SENDERS_MAX, 7)
    assert len(order) == SENDERS_MAX
    assert not order.is_in_order(0, 5)
    assert order.is_in_order(1, 5)
