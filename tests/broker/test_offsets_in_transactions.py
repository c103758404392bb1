"""Offsets in transactions, by a raw conversation with a broker that coordinates everything: both protocols, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.conversation import Conversation
from tests.broker.group_talk import Member, join, stable, sync, wait_for_coordinator
from tests.broker.test_transactions_served import Producer
from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

pytestmark = pytest.mark.slow

UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT


class Copier:
    """A producer that commits what a group has read."""

    def __init__(self, conversation: Conversation, topic: str) -> None:
        self._conversation = conversation
        self._topic = topic
        self.group = f"group of {topic}"
        self.producer = Producer(conversation, topic, f"id of {topic}")
        wait_for_coordinator(conversation, self.group)

    def add(self) -> ErrorCode:
        asked = AddOffsetsToTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.identity.producer_id,
            producer_epoch=self.producer.identity.producer_epoch,
            group_id=self.group,
        )
        return self._conversation.ask(asked, 3).error_code

    def commit(self, offset: int, version: int, **said: Any) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="note"
        )
        asked = TxnOffsetCommitRequest(
            transactional_id=self.producer.transactional_id,
            group_id=self.group,
            producer_id=self.producer.identity.producer_id,
            producer_epoch=self.producer.identity.producer_epoch,
            topics=(TxnOffsetCommitRequestTopic(name=self._topic, partitions=(partition,)),),
            **said,
        )
        return self._conversation.ask(asked, version).topics[0].partitions[0].error_code

    def commit_as(self, member: Member, offset: int) -> ErrorCode:
        return self.commit(offset, 5, member_id=member.member_id, generation_id=member.generation_id)

    def committed(self) -> int:
        """What a careful reader begins at; an error as a negative number."""
        topics = (OffsetFetchRequestTopics(name=self._topic, partition_indexes=(0,)),)
        groups = (OffsetFetchRequestGroup(group_id=self.group, topics=topics),)
        (group,) = self._conversation.ask(OffsetFetchRequest(groups=groups, require_stable=True), 9).groups
        (row,) = group.topics[0].partitions
        return -row.error_code or row.committed_offset


@pytest.fixture
def conversation(tidelog: TidelogProcess) -> Iterator[Conversation]:
    with Conversation(tidelog.bootstrap) as conversation:
        yield conversation


@pytest.fixture
def copier(conversation: Conversation, topic: str) -> Copier:
    return Copier(conversation, topic)


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_a_group_that_the_producer_has_added_is_committed_with_the_transaction(copier: Copier, version: int) -> None:
    too_early = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert copier.commit(1, version) is too_early
    assert copier.add() is ErrorCode.NONE
    assert copier.commit(5, version) is ErrorCode.NONE
    assert copier.committed() == UNSTABLE
    assert copier.producer.end(4, is_committed=True) is ErrorCode.NONE
    eventually(lambda: copier.committed() == 5, "it is committed")
    eventually(lambda: copier.commit(6, version) is too_early, "the transaction is over")
    assert copier.committed() == 5


def test_committing_adds_the_group_in_the_new_protocol(copier: Copier) -> None:
    assert copier.commit(5, 5) is ErrorCode.NONE
    assert copier.producer.end(5, is_committed=True) is ErrorCode.NONE
    eventually(lambda: copier.committed() == 5, "it is committed")
    eventually(lambda: copier.commit(6, 5) is ErrorCode.NONE, "the next one has begun")
    assert copier.committed() == UNSTABLE
    assert copier.producer.end(5, is_committed=False) is ErrorCode.NONE
    eventually(lambda: copier.committed() == 5, "it is as before")


def test_t10_a_commit_that_comes_after_the_abort_of_its_transaction_is_refused(copier: Copier) -> None:
    assert copier.commit(5, 5) is ErrorCode.NONE
    late = copier.producer.identity
    assert copier.producer.end(5, is_committed=False) is ErrorCode.NONE
    eventually(lambda: copier.committed() == -1, "it is aborted")
    eventually(lambda: copier.commit(6, 5) is ErrorCode.NONE, "the next one has begun")
    current, copier.producer.identity = copier.producer.identity, late
    assert copier.commit(5, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
    copier.producer.identity = current
    assert copier.producer.end(5, is_committed=True) is ErrorCode.NONE
    eventually(lambda: copier.committed() == 6, "only what belongs to it is committed")


def test_g06_a_member_that_lost_its_partitions_cannot_commit_what_it_has_read(
    conversation: Conversation, copier: Copier
) -> None:
    zombie = stable(conversation, copier.group)
    assert copier.commit_as(zombie, 5) is ErrorCode.NONE
    assert copier.producer.end(5, is_committed=True) is ErrorCode.NONE
    leaving = LeaveGroupRequest(group_id=copier.group, members=(MemberIdentity(member_id=zombie.member_id),))
    assert conversation.ask(leaving, 5).error_code is ErrorCode.NONE
    joined = join(conversation, copier.group)
    heir = Member(copier.group, joined.member_id, joined.generation_id)
    sync(conversation, heir, {heir.member_id: b"all"})
    assert heir.generation_id > zombie.generation_id
    eventually(lambda: copier.commit_as(zombie, 6) is ErrorCode.UNKNOWN_MEMBER_ID, "it is told that it is out")
    assert copier.commit_as(heir._replace(generation_id=zombie.generation_id), 6) is ErrorCode.ILLEGAL_GENERATION
    eventually(lambda: copier.committed() == 5, "nothing has changed")
    eventually(lambda: copier.commit_as(heir, 7) is ErrorCode.NONE, "the next one has begun")
    assert copier.producer.end(5, is_committed=True) is ErrorCode.NONE
    eventually(lambda: copier.committed() == 7, "it is committed")
