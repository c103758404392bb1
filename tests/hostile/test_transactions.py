"""S11: producer ids and transactional ids by the million, transactions without end, and partitions without measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.broker.conversation import Conversation
from tests.hostile.victim import MEBIBYTE, NOW_MS, Victim
from tidelog.model import ErrorCode
from tidelog.records import RecordBatchBuilder
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.list_transactions import ListTransactionsRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

pytestmark = pytest.mark.timed
SETTINGS: Final = (
    "transaction.state.log.num.partitions=1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)
INIT, ADD, PRODUCE = 4, 3, 12
AT_A_TIME: Final = 500
PER_ID_BYTES: Final = 600  # what an id may cost that is remembered for a week


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    victim = Victim(tmp_path_factory.mktemp("coordinator") / "data", *SETTINGS)
    with victim.process:
        begin(victim)
        yield victim
    assert victim.process.process.returncode == 0, f"no clean stop after all this:\n{victim.process.output}"


def begin(victim: Victim) -> None:
    """Have the topic of transactions made, and its partition loaded."""
    victim.create("honest")
    victim.create("held", 4)
    with victim.connect() as client:

        def is_there() -> bool:
            found = client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("any",)), 4).coordinators
            return not found[0].error_code and not client.ask(init("any"), INIT).error_code

        victim.until(is_there)


def init(transactional_id: str | None, timeout_ms: int = 900_000) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)


def given(client: Conversation, requests: list[InitProducerIdRequest]) -> list[InitProducerIdResponse]:
    """The answers to requests that are sent without waiting for each other."""
    headers = [client.send(request, INIT) for request in requests]
    answers = [client.hear(header) for header in headers]
    return [answer for answer in answers if isinstance(answer, InitProducerIdResponse)]


def patience_s(count: int) -> float:
    """How long others may have to wait meanwhile: the collector of garbage looks at a million ids in one go."""
    return 1.0 if count < 100_000 else 3.0


def ask_for_ids(victim: Victim, count: int, name: str | None) -> tuple[Counter[ErrorCode], int, int]:
    """How often which answer came, how many ids there were, and how many bytes the broker has grown by."""
    before = victim.rss_bytes
    codes: Counter[ErrorCode] = Counter()
    ids: set[int] = set()
    with victim.connect() as flood, victim.answering_others(within_s=patience_s(count)):
        for first in range(0, count, AT_A_TIME):
            numbers = range(first, first + AT_A_TIME)
            for answer in given(flood, [init(None if name is None else f"{name}-{number}") for number in numbers]):
                codes[answer.error_code] += 1
                ids.add(answer.producer_id)
    return codes, len(ids), victim.rss_bytes - before


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.proof)])
def test_s11_producer_ids_by_the_million_cost_nothing_and_no_two_are_the_same(coordinator: Victim, count: int) -> None:
    codes, ids, grown_bytes = ask_for_ids(coordinator, count, None)
    assert codes == {ErrorCode.NONE: count}
    assert ids == count
    assert grown_bytes < 24 * MEBIBYTE
    assert coordinator.serve_within_s() < 5


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("count", [5_000, pytest.param(150_000, marks=pytest.mark.proof)])
def test_s11_many_transactional_ids_cost_a_bounded_amount_each_and_others_are_answered(
    coordinator: Victim, count: int
) -> None:
    codes, ids, grown_bytes = ask_for_ids(coordinator, count, f"flood-of-{count}")
    assert codes == {ErrorCode.NONE: count}
    assert ids == count
    assert grown_bytes < 24 * MEBIBYTE + count * PER_ID_BYTES
    with coordinator.connect() as client, coordinator.answering_others(within_s=patience_s(count)):
        listed = client.ask(ListTransactionsRequest(transactional_id_pattern=f"flood-of-{count}-.*77"), 2)
    assert len(listed.transaction_states) == count // 100
    assert coordinator.serve_within_s() < 5


def test_s11_one_id_asked_for_again_and_again_changes_its_producer_when_epochs_are_used_up(coordinator: Victim) -> None:
    before = coordinator.rss_bytes
    pairs = []
    with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
        for _ in range(0, 33_000, AT_A_TIME):
            pairs += [
                (answer.producer_id, answer.producer_epoch) for answer in given(client, [init("again")] * AT_A_TIME)
            ]
    assert len(set(pairs)) == len(pairs)
    assert max(epoch for _, epoch in pairs) == 32_766, "the last epoch is kept for fencing"
    assert len({producer_id for producer_id, _ in pairs}) == 2
    assert coordinator.rss_bytes < before + 24 * MEBIBYTE


@pytest.mark.parametrize("timeout_ms", [2**31 - 1, 900_001, 0, -1, -(2**31)])
def test_s11_a_transaction_that_may_take_for_ever_is_refused(coordinator: Victim, timeout_ms: int) -> None:
    with coordinator.connect() as client:
        answer = client.ask(init("for-ever", timeout_ms), INIT)
    assert answer.error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def adding(producer: InitProducerIdResponse, name: str, *topics: AddPartitionsToTxnTopic) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )


def test_s11_partitions_without_end_are_refused_and_others_are_answered(coordinator: Victim) -> None:
    before = coordinator.rss_bytes
    nowhere = tuple(AddPartitionsToTxnTopic(name=f"nowhere-{number}", partitions=(0,)) for number in range(10_000))
    beyond = AddPartitionsToTxnTopic(name="held", partitions=tuple(range(10_000)))
    with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
        producer = client.ask(init("endless"), INIT)
        for topics in (nowhere, (beyond,)):
            answer = client.ask(adding(producer, "endless", *topics), ADD)
            codes = {
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            assert codes <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED}
        (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=("endless",)), 0).transaction_states
    assert (state.transaction_state, state.topics) == ("Empty", ())
    assert coordinator.serve_within_s() < 5
    assert coordinator.rss_bytes < before + 64 * MEBIBYTE


def is_hung_up_on(client: Conversation, request: AddPartitionsToTxnRequest) -> bool:
    try:
        client.send(request, ADD)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return client.is_closed_by_peer()


def test_s11_more_partitions_than_any_client_has_are_hung_up_on(coordinator: Victim) -> None:
    before = coordinator.rss_bytes
    for partitions in (range(2_000_000), [0] * 2_000_000):
        topic = AddPartitionsToTxnTopic(name="held", partitions=tuple(partitions))
        with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
            producer = client.ask(init("too-many"), INIT)
            assert is_hung_up_on(client, adding(producer, "too-many", topic))
    assert coordinator.serve_within_s() < 5
    assert coordinator.rss_bytes < before + 64 * MEBIBYTE


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=[pytest.mark.proof, pytest.mark.timeout(3_600)])])
def test_s11_the_same_partitions_added_again_and_again_are_written_once(coordinator: Victim, count: int) -> None:
    before = coordinator.rss_bytes
    topic = AddPartitionsToTxnTopic(name="held", partitions=(0, 1, 0, 1))
    name = f"added-{count}"
    with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
        producer = client.ask(init(name), INIT)
        client.ask(adding(producer, name, topic), ADD)
        written = log_bytes(coordinator)
        for _ in range(0, count, AT_A_TIME):
            headers = [client.send(adding(producer, name, topic), ADD) for _ in range(AT_A_TIME)]
            for header in headers:
                client.hear(header)
    assert log_bytes(coordinator) == written
    assert coordinator.rss_bytes < before + 24 * MEBIBYTE


def log_bytes(victim: Victim) -> int:
    """How much the coordinator has written down."""
    return sum(file.stat().st_size for file in victim.process.log_dir.glob("__transaction_state-0/*.log"))


def test_s11_transactions_that_nobody_ends_hold_a_partition_back_no_longer_than_they_may(coordinator: Victim) -> None:
    """A thousand producers open one each and are never heard of again."""
    with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
        names = [f"left-{number}" for number in range(1_000)]
        producers = given(client, [init(name, 3_000) for name in names])
        headers = [client.send(opening(name, one), PRODUCE) for name, one in zip(names, producers, strict=True)]
        for header in headers:
            client.hear(header)
        committed, everything = ends(client)
        assert everything >= len(names) > committed, "there is something of everybody, and readers wait"

        def is_free() -> bool:
            committed, everything = ends(client)
            return committed == everything

        coordinator.until(is_free, within_s=60)
    assert coordinator.serve_within_s() < 5


def opening(transactional_id: str, producer: InitProducerIdResponse) -> ProduceRequest:
    builder = RecordBatchBuilder(
        producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0, is_transactional=True
    )
    builder.append(timestamp_ms=NOW_MS, key=None, value=b"left")
    data = PartitionProduceData(index=3, records=builder.build())
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(name="held", partition_data=(data,)),),
    )


def ends(client: Conversation) -> tuple[int, int]:
    """Up to where everything is committed, and where the log ends."""
    place = ListOffsetsPartition(partition_index=3, timestamp=-1)
    asked = (ListOffsetsTopic(name="held", partitions=(place,)),)
    levels = [ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=asked) for level in (1, 0)]
    committed, everything = [client.ask(each, 6).topics[0].partitions[0].offset for each in levels]
    return committed, everything


def test_s11_markers_for_producers_that_nobody_knows_by_the_thousand(coordinator: Victim) -> None:
    before = coordinator.rss_bytes
    topics = (WritableTxnMarkerTopic(name="held", partition_indexes=(2, 2, 77)),)
    with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
        for first in range(0, 5_000, AT_A_TIME):
            markers = tuple(
                WritableTxnMarker(
                    producer_id=10_000_000 + number,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=topics,
                    coordinator_epoch=0,
                )
                for number in range(first, first + AT_A_TIME)
            )
            answer = client.ask(WriteTxnMarkersRequest(markers=markers), 1)
            assert isinstance(answer, WriteTxnMarkersResponse)
            assert len(answer.markers) == AT_A_TIME
    assert coordinator.serve_within_s() < 5
    assert coordinator.rss_bytes < before + 64 * MEBIBYTE
