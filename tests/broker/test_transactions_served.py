"""Transactions by a raw conversation with a broker that coordinates and leads everything: both protocols, request by request."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.test_produce_transactions import sent
from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.records import read_records
from tidelog.records.batch import headers
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.slow

_TRANSACTIONS = 1


class Producer:
    """A transactional producer that does exactly what it is told."""

    def __init__(self, conversation: Conversation, topic: str, transactional_id: str) -> None:
        self._conversation = conversation
        self._topic = topic
        self.transactional_id = transactional_id
        self.identity = ProducerIdentity(-1, -1)
        topic_id_of(conversation, topic)
        eventually(self._is_coordinated, "there is a coordinator")

    def _is_coordinated(self) -> bool:
        asked = FindCoordinatorRequest(coordinator_keys=(self.transactional_id,), key_type=_TRANSACTIONS)
        (found,) = self._conversation.ask(asked, 4).coordinators
        return found.error_code is ErrorCode.NONE and self.init() is ErrorCode.NONE

    def init(self) -> ErrorCode:
        asked = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        answer = self._conversation.ask(asked, 4)
        if answer.error_code is ErrorCode.NONE:
            self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def add(self) -> ErrorCode:
        asked = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=self._topic, partitions=(0,)),),
        )
        (topic,) = self._conversation.ask(asked, 3).results_by_topic_v3_and_below
        (row,) = topic.results_by_partition
        return row.partition_error_code

    def produce(self, value: bytes, sequence: int, version: int) -> ErrorCode:
        now_ms = int(time.time() * 1000)  # noqa: TID251  # As the markers have it, of a real broker.
        records = sent(sequence, producer=self.identity, value=value, timestamp_ms=now_ms)
        data = PartitionProduceData(index=0, records=records)
        asked = ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=(TopicProduceData(name=self._topic, partition_data=(data,)),),
            transactional_id=self.transactional_id,
        )
        return self._conversation.ask(asked, version).responses[0].partition_responses[0].error_code

    def end(self, version: int, *, is_committed: bool) -> ErrorCode:
        asked = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=is_committed,
        )
        answer = self._conversation.ask(asked, version)
        if version >= 5 and answer.error_code is ErrorCode.NONE:
            self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def read(self) -> tuple[list[bytes], int]:
        """Everything a careful reader gets, aborted or not, and how often something was aborted."""
        asked = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=1,
            topics=(
                FetchTopic(
                    topic=self._topic,
                    partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),),
                ),
            ),
        )
        (partition,) = self._conversation.ask(asked, 12).responses[0].partitions
        data = bytes(partition.records or b"")
        found = [
            record.value or b""
            for position, header in headers(data)
            if not header.is_control
            for record in read_records(data[position : position + header.size], max_bytes=1 << 20)
        ]
        return found, len(partition.aborted_transactions or ())


@pytest.fixture
def producer(tidelog: TidelogProcess, topic: str) -> Iterator[Producer]:
    with Conversation(tidelog.bootstrap) as conversation:
        yield Producer(conversation, topic, f"id of {topic}")


def test_a_transaction_of_version_1_is_verified_and_becomes_visible_with_its_marker(producer: Producer) -> None:
    assert producer.produce(b"too early", 0, 10) is ErrorCode.INVALID_TXN_STATE
    assert producer.produce(b"too early", 0, 11) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add() is ErrorCode.NONE
    assert producer.produce(b"a", 0, 11) is ErrorCode.NONE
    assert producer.produce(b"b", 1, 11) is ErrorCode.NONE
    assert producer.read() == ([], 0)
    assert producer.end(4, is_committed=True) is ErrorCode.NONE
    eventually(lambda: producer.read() == ([b"a", b"b"], 0), "it is visible")
    assert producer.produce(b"late", 2, 10) is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_of_version_2_is_joined_by_producing_and_has_an_epoch_of_its_own(producer: Producer) -> None:
    first = producer.identity
    assert producer.produce(b"a", 0, 12) is ErrorCode.NONE
    assert producer.end(5, is_committed=False) is ErrorCode.NONE
    assert producer.identity == (first.producer_id, first.producer_epoch + 1)
    eventually(lambda: producer.produce(b"b", 0, 12) is ErrorCode.NONE, "the next one has begun")
    assert producer.end(5, is_committed=True) is ErrorCode.NONE
    eventually(lambda: producer.read() == ([b"a", b"b"], 1), "the first is named as aborted")
    producer.identity = first
    assert producer.produce(b"late", 1, 12) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_t11_a_producer_whose_id_another_has_taken_is_fenced(producer: Producer) -> None:
    old = producer.identity
    assert producer.init() is ErrorCode.NONE
    assert producer.identity.producer_epoch > old.producer_epoch
    producer.identity = old
    for version in (10, 12):
        assert producer.produce(b"zombie", 0, version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.read() == ([], 0)
