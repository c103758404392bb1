"""Every version of the APIs of transactions, over a raw conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.group_talk import wait_for_coordinator
from tests.broker.transaction_talk import add, codes, described, init, ready, until_state
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest
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


def fenced(version: int, since: int) -> ErrorCode:
    """How a version says that somebody newer has the id."""
    return ErrorCode.PRODUCER_FENCED if version >= since else ErrorCode.INVALID_PRODUCER_EPOCH


def check_init_producer_id(conversation: Conversation, version: int, topic: str) -> None:
    ready(conversation, topic)
    fresh = init(conversation, None, version)
    assert (fresh.error_code, fresh.producer_epoch) == (ErrorCode.NONE, 0)
    first = init(conversation, topic, version)
    second = init(conversation, topic, version)
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)
    assert second.producer_id != fresh.producer_id
    if version >= 3:
        holder = {"producer_id": second.producer_id, "producer_epoch": second.producer_epoch}
        third = init(conversation, topic, version, **holder)
        assert (third.error_code, third.producer_epoch) == (ErrorCode.NONE, second.producer_epoch + 1)
        zombie = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
        assert init(conversation, topic, version, **zombie).error_code is fenced(version, 4)


def check_add_partitions_to_txn(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    former, writer = ready(conversation, topic), ready(conversation, topic)
    places = {(topic, 0)}
    if version <= 3:
        refused = conversation.ask(former.add((topic, (0,))), version).results_by_topic_v3_and_below
        assert codes(refused) == dict.fromkeys(places, fenced(version, 2))
        added = conversation.ask(writer.add((topic, (0,))), version).results_by_topic_v3_and_below
        assert codes(added) == dict.fromkeys(places, ErrorCode.NONE)
    else:
        unknown = conversation.ask(writer.asked_by_leader((topic, (0,)), is_verification=True), version)
        assert set(codes(unknown.results_by_transaction[0].topic_results)) == places
        assert set(codes(unknown.results_by_transaction[0].topic_results).values()) != {ErrorCode.NONE}
        (added_by_leader,) = conversation.ask(writer.asked_by_leader((topic, (0,))), version).results_by_transaction
        assert added_by_leader.transactional_id == topic
        assert codes(added_by_leader.topic_results) == dict.fromkeys(places, ErrorCode.NONE)
    assert described(conversation, topic).transaction_state == "Ongoing"


def check_add_offsets_to_txn(conversation: Conversation, version: int, topic: str) -> None:
    wait_for_coordinator(conversation, topic)
    former, writer = ready(conversation, topic), ready(conversation, topic)
    assert conversation.ask(former.add_offsets(topic), version).error_code is fenced(version, 2)
    assert conversation.ask(writer.add_offsets(topic), version).error_code is ErrorCode.NONE
    (offsets,) = described(conversation, topic).topics
    assert (offsets.topic, len(offsets.partitions)) == ("__consumer_offsets", 1)


def check_end_txn(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    former, writer = ready(conversation, topic), ready(conversation, topic)
    assert conversation.ask(former.end(), version).error_code is fenced(version, 2)
    assert conversation.ask(writer.end(), version).error_code is ErrorCode.INVALID_TXN_STATE
    assert add(conversation, writer, topic, 0) is ErrorCode.NONE
    ended = conversation.ask(writer.end(), version)
    assert ended.error_code is ErrorCode.NONE
    if version >= 5:
        assert (ended.producer_id, ended.producer_epoch) == (writer.producer_id, writer.producer_epoch + 1)
    state = until_state(conversation, topic, "CompleteCommit")
    assert (state.topics, state.producer_epoch) == ((), writer.producer_epoch + (version >= 5))


def check_write_txn_markers(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    marker = WritableTxnMarker(
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(0, 9)),),
        coordinator_epoch=0,
    )
    (answered,) = conversation.ask(WriteTxnMarkersRequest(markers=(marker,)), version).markers
    (of_topic,) = answered.topics
    assert [(row.partition_index, row.error_code) for row in of_topic.partitions] == [
        (0, ErrorCode.NONE),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def check_txn_offset_commit(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    wait_for_coordinator(conversation, topic)
    writer = ready(conversation, topic)
    if version < 5:
        assert conversation.ask(writer.add_offsets(topic), 3).error_code is ErrorCode.NONE
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="")
    request = TxnOffsetCommitRequest(
        **writer._asdict(),
        group_id=topic,
        topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(row,)),),
    )
    (of_topic,) = conversation.ask(request, version).topics
    assert [one.error_code for one in of_topic.partitions] == [ErrorCode.NONE]
    assert described(conversation, topic).transaction_state == "Ongoing"


def check_describe_transactions(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    assert add(conversation, writer, topic, 0) is ErrorCode.NONE
    asked = DescribeTransactionsRequest(transactional_ids=(topic, "nobody", "", topic))
    known, unknown, empty = conversation.ask(asked, version).transaction_states
    assert unknown.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code is ErrorCode.INVALID_REQUEST
    assert (known.error_code, known.transactional_id, known.transaction_state) == (ErrorCode.NONE, topic, "Ongoing")
    assert (known.producer_id, known.producer_epoch) == (writer.producer_id, writer.producer_epoch)
    assert (known.transaction_timeout_ms, known.transaction_start_time_ms > 0) == (60_000, True)
    assert [(one.topic, one.partitions) for one in known.topics] == [(topic, (0,))]


def check_list_transactions(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer, idle = ready(conversation, topic), ready(conversation, f"{topic}-idle")
    assert add(conversation, writer, topic, 0) is ErrorCode.NONE

    def listed(**filters: object) -> dict[str, str]:
        answer = conversation.ask(ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]
        assert answer.error_code is ErrorCode.NONE
        return {one.transactional_id: one.transaction_state for one in answer.transaction_states}

    everything = listed()
    assert (everything[topic], everything[idle.transactional_id]) == ("Ongoing", "Empty")
    assert list(everything) == sorted(everything)
    assert listed(producer_id_filters=(writer.producer_id,)) == {topic: "Ongoing"}
    assert set(listed(state_filters=("Empty", "Nonsense")).values()) == {"Empty"}
    unknown = conversation.ask(ListTransactionsRequest(state_filters=("Empty", "Nonsense")), version)
    assert unknown.unknown_state_filters == ("Nonsense",)
    if version >= 1:
        assert topic not in listed(duration_filter=3_600_000)
    if version >= 2:
        assert list(listed(transactional_id_pattern=f"{topic}.*")) == [topic, idle.transactional_id]


TRANSACTION_CHECKS: Final[dict[ApiKey, Callable[[Conversation, int, str], None]]] = {
    ApiKey.INIT_PRODUCER_ID: check_init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: check_add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: check_add_offsets_to_txn,
    ApiKey.END_TXN: check_end_txn,
    ApiKey.WRITE_TXN_MARKERS: check_write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: check_txn_offset_commit,
    ApiKey.DESCRIBE_TRANSACTIONS: check_describe_transactions,
    ApiKey.LIST_TRANSACTIONS: check_list_transactions,
}
