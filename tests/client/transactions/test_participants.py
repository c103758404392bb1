"""Which batches may leave, and whether there is something to end."""

from __future__ import annotations

from tidelog.client.transactions.participants import Participants
from tidelog.model import ProducerIdentity, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ME = ProducerIdentity(7, 3)


def test_in_version_one_a_partition_waits_until_the_coordinator_knows_it() -> None:
    participants = Participants(ME)
    assert not participants.enlist(T0)
    assert not participants.enlist(T1)
    assert participants.wanted == [T0, T1]
    participants.on_joined([T0])
    assert (participants.may_send(T0), participants.may_send(T1)) == (True, False)
    assert participants.wanted == [T1]
    assert participants.enlist(T0)


def test_in_version_two_leaders_add_their_partitions() -> None:
    participants = Participants(ME, is_version_two=True)
    assert participants.enlist(T0)
    assert participants.may_send(T0)
    assert participants.wanted == []


def test_a_partition_nobody_wrote_to_may_not_be_sent_to() -> None:
    assert not Participants(ME, is_version_two=True).may_send(T0)


def test_there_is_something_to_end_once_the_coordinator_may_have_heard_of_it() -> None:
    participants = Participants(ME)
    participants.enlist(T0)
    assert not participants.may_be_ongoing
    participants.on_joining()
    assert (participants.may_be_ongoing, participants.is_joined) == (True, False)
    participants.on_joined([T0])
    assert participants.is_joined
    participants.on_end_answered()
    assert not participants.may_be_ongoing


def test_in_version_two_it_may_have_with_the_first_record() -> None:
    participants = Participants(ME, is_version_two=True)
    assert not participants.may_be_ongoing
    participants.enlist(T0)
    assert participants.may_be_ongoing
