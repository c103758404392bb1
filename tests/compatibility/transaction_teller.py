"""Asks a broker about transactions in the words of the protocol, and writes down what it answers.

Told to two brokers, what is written down must be the same: producer ids are called by the order in which they came, and times are left out.
"""

from __future__ import annotations

from typing import Final, Self

from tests.broker.conversation import Conversation
from tests.broker.test_fetch_behaviour import only
from tests.cluster.waiting import eventually
from tidelog.model import ErrorCode
from tidelog.records import RecordBatchBuilder
from tidelog.records.batch import read_header
from tidelog.records.control import read_marker
from tidelog.records.record import read_records
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.list_transactions import ListTransactionsRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

LATEST: Final = -1
_LOADING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_MEBIBYTE: Final = 1 << 20
_NOW_MS: Final = 1_700_000_000_000


class Producer:
    """An id, an epoch, and the next sequence of each partition. Nothing here is checked: that is the broker's part."""

    def __init__(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        self.transactional_id, self.producer_id, self.epoch = transactional_id, producer_id, epoch
        self.sequences: dict[tuple[str, int], int] = {}

    def at(self, epoch: int) -> Producer:
        """The same with another epoch, from sequence 0 on."""
        return Producer(self.transactional_id, self.producer_id, epoch)


class Teller:
    """One connection, and the lines of the story so far."""

    def __init__(self, bootstrap: str) -> None:
        self.lines: list[str] = []
        self._conversation = Conversation(bootstrap)
        self._names: dict[int, str] = {-1: "none"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._conversation.__exit__()

    def tell(self, *words: object) -> None:
        """Write down a line."""
        self.lines.append(" ".join(word.name if isinstance(word, ErrorCode) else str(word) for word in words))

    def prepare(self, *topics: str) -> None:
        """Make topics of two partitions, and have the coordinators found."""
        wanted = tuple(
            CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=(), configs=())
            for name in topics
        )
        created = self._conversation.ask(CreateTopicsRequest(topics=wanted, timeout_ms=20_000), 5).topics
        assert {each.error_code for each in created} == {ErrorCode.NONE}
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("any",))
            eventually(
                lambda: not self._conversation.ask(request, 4).coordinators[0].error_code,  # noqa: B023
                "there are coordinators",
            )

    def init(
        self, transactional_id: str | None, last: Producer | None = None, *, timeout_ms: int = 60_000, version: int = 4
    ) -> Producer:
        """InitProducerId."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1 if last is None else last.producer_id,
            producer_epoch=-1 if last is None else last.epoch,
        )
        answer = self._conversation.ask(request, version)
        while answer.error_code in _LOADING:
            answer = self._conversation.ask(request, version)
        self.tell("init", transactional_id, answer.error_code, self._name(answer.producer_id), answer.producer_epoch)
        return Producer(transactional_id or "", answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, topic: str, *partitions: int, version: int = 3) -> None:
        """AddPartitionsToTxn, as clients ask it. The partition 0 of a topic `nowhere` is added to the request when there is none."""
        topics: tuple[AddPartitionsToTxnTopic, ...] = (AddPartitionsToTxnTopic(name=topic, partitions=partitions),)
        if not partitions:
            topics = tuple(AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in (topic, "nowhere"))
        answer = self._conversation.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics,
            ),
            version,
        )
        codes = {
            f"{result.name}-{each.partition_index}": each.partition_error_code.name
            for result in answer.results_by_topic_v3_and_below
            for each in result.results_by_partition
        }
        self.tell("add", producer.transactional_id, dict(sorted(codes.items())))

    def add_as_broker(self, *producers: Producer, topic: str, verify: bool, version: int = 5) -> None:
        """AddPartitionsToTxn, as leaders ask it."""
        transactions = tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                verify_only=verify,
                topics=(AddPartitionsToTxnTopic(name=topic, partitions=(0,)),),
            )
            for each in producers
        )
        answer = self._conversation.ask(AddPartitionsToTxnRequest(transactions=transactions), version)
        codes = {
            result.transactional_id: each.partition_error_code.name
            for result in answer.results_by_transaction
            for topic_result in result.topic_results
            for each in topic_result.results_by_partition
        }
        self.tell("verify" if verify else "add as broker", answer.error_code, dict(sorted(codes.items())))

    def add_offsets(self, producer: Producer, group_id: str, *, version: int = 3) -> None:
        """AddOffsetsToTxn."""
        answer = self._conversation.ask(
            AddOffsetsToTxnRequest(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id=group_id,
            ),
            version,
        )
        self.tell("add offsets", producer.transactional_id, group_id, answer.error_code)

    def commit_offset(
        self,
        producer: Producer,
        group_id: str,
        topic: str,
        offset: int,
        *,
        version: int = 3,
        member: tuple[str, int] = ("", -1),
    ) -> None:
        """TxnOffsetCommit, of partition 0."""
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        answer = self._conversation.ask(
            TxnOffsetCommitRequest(
                transactional_id=producer.transactional_id,
                group_id=group_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                member_id=member[0],
                generation_id=member[1],
                topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(place,)),),
            ),
            version,
        )
        self.tell("commit offset", group_id, offset, answer.topics[0].partitions[0].error_code)

    def committed(self, group_id: str, topic: str) -> None:
        """OffsetFetch, of an offset that is stable."""
        asked = (OffsetFetchRequestTopics(name=topic, partition_indexes=(0,)),)
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=group_id, topics=asked),), require_stable=True
        )
        (group,) = self._conversation.ask(request, 8).groups
        place = group.topics[0].partitions[0]
        self.tell("committed", group_id, group.error_code, place.error_code, place.committed_offset)

    def produce(
        self,
        producer: Producer,
        topic: str,
        value: str,
        *,
        version: int = 9,
        sequence: int | None = None,
        is_transactional: bool = True,
    ) -> None:
        """Produce one record to partition 0."""
        place = (topic, 0)
        number = producer.sequences.get(place, 0) if sequence is None else sequence
        builder = RecordBatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=number,
            is_transactional=is_transactional,
        )
        builder.append(timestamp_ms=_NOW_MS, key=None, value=value.encode())
        data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=builder.build()),))
        request = ProduceRequest(
            transactional_id=producer.transactional_id if is_transactional else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=(data,),
        )
        (answered,) = self._conversation.ask(request, version).responses
        partition = answered.partition_responses[0]
        if partition.error_code is ErrorCode.NONE and sequence is None:
            producer.sequences[place] = number + 1
        self.tell("produce", producer.transactional_id, value, partition.error_code, partition.base_offset)

    def end(self, producer: Producer, *, commit: bool, version: int = 3, settles: bool = True) -> Producer:
        """EndTxn; then wait until all markers are written, unless told not to."""
        request = EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self._conversation.ask(request, version)
        pair = (self._name(answer.producer_id), answer.producer_epoch)
        self.tell("commit" if commit else "abort", producer.transactional_id, answer.error_code, *pair)
        if settles:
            self.settle(producer.transactional_id)
        if version < 5 or answer.producer_id < 0:
            return producer
        return Producer(producer.transactional_id, answer.producer_id, answer.producer_epoch)

    def settle(self, transactional_id: str) -> None:
        """Wait until nothing is being decided."""
        eventually(
            lambda: not self._described(transactional_id).transaction_state.startswith("Prepare"), "markers are written"
        )

    def await_state(self, transactional_id: str, state: str) -> None:
        """Wait until it comes to that."""
        eventually(lambda: self._described(transactional_id).transaction_state == state, f"{state} is reached")
        self.tell(transactional_id, "comes to", state)

    def describe(self, transactional_id: str) -> None:
        """DescribeTransactions."""
        found = self._described(transactional_id)
        if found.error_code is not ErrorCode.NONE:
            self.tell("describe", transactional_id, found.error_code)
            return
        pair = (self._name(found.producer_id), found.producer_epoch)
        topics = sorted((each.topic, *each.partitions) for each in found.topics)
        is_begun = found.transaction_start_time_ms > 0
        rest = (found.transaction_state, found.transaction_timeout_ms, *pair, topics, is_begun)
        self.tell("describe", transactional_id, found.error_code, *rest)

    def list_all(
        self, *states: str, producer: Producer | None = None, duration_ms: int = -1, pattern: str = ""
    ) -> None:
        """ListTransactions."""
        request = ListTransactionsRequest(
            state_filters=states,
            producer_id_filters=() if producer is None else (producer.producer_id,),
            duration_filter=duration_ms,
            transactional_id_pattern=pattern or None,
        )
        answer = self._conversation.ask(request, 2)
        rows = sorted(
            f"{each.transactional_id} {self._name(each.producer_id)} {each.transaction_state}"
            for each in answer.transaction_states
        )
        self.tell("list", states, pattern, answer.error_code, answer.unknown_state_filters, rows)

    def write_marker(
        self, producer: Producer, topic: str, *, commit: bool, coordinator_epoch: int, version: int = 1
    ) -> None:
        """WriteTxnMarkers to partition 0, as a coordinator or an operator does."""
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=commit,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)),),
            coordinator_epoch=coordinator_epoch,
        )
        (answer,) = self._conversation.ask(WriteTxnMarkersRequest(markers=(marker,)), version).markers
        self.tell("marker", coordinator_epoch, answer.topics[0].partitions[0].error_code)

    def producers(self, topic: str) -> None:
        """DescribeProducers of partition 0."""
        asked = (TopicRequest(name=topic, partition_indexes=(0,)),)
        (found,) = self._conversation.ask(DescribeProducersRequest(topics=asked), 0).topics
        (partition,) = found.partitions
        rows = sorted(
            f"{self._name(each.producer_id)} epoch {each.producer_epoch} sequence {each.last_sequence} "
            f"coordinator {each.coordinator_epoch} open since {each.current_txn_start_offset}"
            for each in partition.active_producers
        )
        self.tell("producers of", topic, partition.error_code, rows)

    def read(self, topic: str) -> None:
        """Fetch partition 0 as somebody who reads what is committed, with its ends for both kinds of readers."""
        place = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=_MEBIBYTE)
        asked = (FetchTopic(topic=topic, partitions=(place,)),)
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_MEBIBYTE, isolation_level=1, topics=asked)
        found = only(self._conversation.ask(fetch, 12))
        aborted = sorted((self._name(each.producer_id), each.first_offset) for each in found.aborted_transactions or ())
        self.tell("read", topic, found.error_code, self._end(topic, 0), self._end(topic, 1), "aborted", aborted)
        rest = bytes(found.records or b"")
        while rest:
            header = read_header(rest)
            batch, rest = rest[: header.size], rest[header.size :]
            named = (self._name(header.producer_id), header.producer_epoch, header.base_sequence)
            what = (
                read_marker(batch)
                if header.is_control
                else [record.value for record in read_records(batch, max_bytes=_MEBIBYTE)]
            )
            self.tell("  at", header.base_offset, *named, "transactional" * header.is_transactional, what)

    def _end(self, topic: str, isolation_level: int) -> int:
        asked = (ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(partition_index=0, timestamp=LATEST),)),)
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=asked)
        return self._conversation.ask(request, 6).topics[0].partitions[0].offset

    def _described(self, transactional_id: str) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        return self._conversation.ask(request, 0).transaction_states[0]

    def _name(self, producer_id: int) -> str:
        return self._names.setdefault(producer_id, f"P{len(self._names)}")
