"""Looking after transactions: what is asked of whom, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from tests.client.scripted_brokers import AS_USUAL, PORT, T0, TOPIC_ID, ScriptedBrokers
from tests.client.test_moving_leaders import properties
from tidelog.client import (
    Admin,
    ClientConfig,
    ConnectionLost,
    OpenTransaction,
    ProducerDescription,
    RequestRefused,
    TransactionDescription,
    TransactionListing,
    UnsupportedApi,
)
from tidelog.model import BrokerId, ErrorCode, IsolationLevel, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey, advertised_versions
from tidelog.wire.messages import (
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    write_txn_markers,
)
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")

LONG_AGO_MS = 1_000
MINUTE_MS = 60_000


def asked(brokers: ScriptedBrokers, ask: Callable[[Admin], Coroutine[Any, Any, T]], **settings: str) -> T:
    async def story(runtime: Runtime) -> T:
        async with Admin.connect(ClientConfig.from_properties(properties(brokers, **settings)), runtime) as admin:
            return await ask(admin)

    return brokers.run(story)


class Script:
    """Three brokers: who coordinates which id, how it stands, and who has what open in `t-0`, which broker 1 leads."""

    def __init__(self) -> None:
        self.brokers = ScriptedBrokers()
        self.coordinators: dict[str, BrokerId] = {}
        self.states: dict[str, describe_transactions.TransactionState] = {}
        self.producers: tuple[describe_producers.ProducerState, ...] = ()
        self.last_stable_offset = 0
        self.log_leaders: list[tuple[BrokerId, ...]] = []  # of the transaction log, one per question, the last for good
        self.brokers.scripts |= {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.LIST_TRANSACTIONS: self._list,
            ApiKey.DESCRIBE_TRANSACTIONS: self._describe,
            ApiKey.DESCRIBE_PRODUCERS: self._producers,
            ApiKey.LIST_OFFSETS: self._offsets,
            ApiKey.METADATA: self._metadata,
        }

    def knows(
        self, name: str, producer_id: int, state: str = "Ongoing", *, at: BrokerId, partitions: tuple[int, ...] = ()
    ) -> None:
        self.coordinators[name] = at
        topics = (describe_transactions.TopicData(topic="t", partitions=partitions),) if partitions else ()
        self.states[name] = describe_transactions.TransactionState(
            error_code=ErrorCode.NONE,
            transactional_id=name,
            transaction_state=state,
            transaction_timeout_ms=5_000,
            transaction_start_time_ms=700 if state == "Ongoing" else -1,
            producer_id=producer_id,
            producer_epoch=3,
            topics=topics,
        )

    def has_open(self, *starts: tuple[int, int], last_timestamp: int = LONG_AGO_MS) -> None:
        self.producers = tuple(
            describe_producers.ProducerState(
                producer_id=producer_id,
                producer_epoch=3,
                last_sequence=9,
                last_timestamp=last_timestamp,
                coordinator_epoch=6,
                current_txn_start_offset=offset,
            )
            for producer_id, offset in starts
        )

    def _find(self, _node: BrokerId, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert request.key_type == 1
        rows = [
            Coordinator(key=key, node_id=self.coordinators[key], host="h", port=1) for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=tuple(rows))

    def _list(
        self, node: BrokerId, request: list_transactions.ListTransactionsRequest
    ) -> list_transactions.ListTransactionsResponse:
        rows = [
            list_transactions.TransactionState(
                transactional_id=name, producer_id=one.producer_id, transaction_state=one.transaction_state
            )
            for name, one in self.states.items()
            if self.coordinators[name] == node
            and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
        ]
        return list_transactions.ListTransactionsResponse(error_code=ErrorCode.NONE, transaction_states=tuple(rows))

    def _describe(
        self, _node: BrokerId, request: describe_transactions.DescribeTransactionsRequest
    ) -> describe_transactions.DescribeTransactionsResponse:
        missing = describe_transactions.TransactionState(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=""
        )
        rows = [self.states.get(name) or replace(missing, transactional_id=name) for name in request.transactional_ids]
        return describe_transactions.DescribeTransactionsResponse(transaction_states=tuple(rows))

    def _producers(
        self, _node: BrokerId, request: describe_producers.DescribeProducersRequest
    ) -> describe_producers.DescribeProducersResponse:
        topics = tuple(
            describe_producers.TopicResponse(
                name=topic.name,
                partitions=tuple(
                    describe_producers.PartitionResponse(
                        partition_index=index, error_code=ErrorCode.NONE, active_producers=self.producers
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
        return describe_producers.DescribeProducersResponse(topics=topics)

    def _offsets(self, _node: BrokerId, request: list_offsets.ListOffsetsRequest) -> Any:
        if request.isolation_level != IsolationLevel.READ_COMMITTED:
            return AS_USUAL
        row = list_offsets.ListOffsetsPartitionResponse(
            partition_index=0, error_code=ErrorCode.NONE, offset=self.last_stable_offset
        )
        return list_offsets.ListOffsetsResponse(
            topics=(list_offsets.ListOffsetsTopicResponse(name="t", partitions=(row,)),)
        )

    def _metadata(self, node: BrokerId, request: metadata.MetadataRequest) -> Any:
        names = {topic.name for topic in request.topics or ()}
        if "__transaction_state" not in names or not self.log_leaders:
            return AS_USUAL
        leaders = self.log_leaders.pop(0) if len(self.log_leaders) > 1 else self.log_leaders[0]
        return metadata.MetadataResponse(
            brokers=tuple(
                metadata.MetadataResponseBroker(node_id=each, host=f"broker-{each}", port=PORT)
                for each in self.brokers.broker_ids
            ),
            cluster_id="scripted",
            controller_id=1,
            topics=(_topic("__transaction_state", leaders, epoch=100 - len(self.log_leaders)), _topic("t", (1,), 0)),
        )


def _topic(name: str, leaders: tuple[BrokerId, ...], epoch: int) -> metadata.MetadataResponseTopic:
    return metadata.MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=name,
        topic_id=TOPIC_ID,
        partitions=tuple(
            metadata.MetadataResponsePartition(
                error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=(1, 2, 3),
                isr_nodes=(1, 2, 3),
            )
            for index, leader in enumerate(leaders)
        ),
    )


def opened(producer_id: int, offset: int) -> ProducerDescription:
    return ProducerDescription(
        producer_id=producer_id,
        producer_epoch=3,
        last_sequence=9,
        last_timestamp_ms=LONG_AGO_MS,
        coordinator_epoch=6,
        transaction_first_offset=offset,
    )


# Listing and describing.


def test_every_broker_is_asked_for_its_transactional_ids() -> None:
    script = Script()
    script.knows("b", 12, at=2)
    script.knows("a", 11, "Empty", at=3)
    assert asked(script.brokers, lambda admin: admin.transactions.list()) == (
        TransactionListing("a", 11, "Empty", 3),
        TransactionListing("b", 12, "Ongoing", 2),
    )


def test_filters_go_to_the_brokers_with_states_as_they_spell_them() -> None:
    script = Script()
    asked(
        script.brokers,
        lambda admin: admin.transactions.list(
            states=["ONGOING", "preparecommit"], producer_ids=[7], duration_ms=0, pattern="a.*"
        ),
    )
    wanted = list_transactions.ListTransactionsRequest(
        state_filters=("Ongoing", "PrepareCommit"),
        producer_id_filters=(7,),
        duration_filter=0,
        transactional_id_pattern="a.*",
    )
    asked_for = script.brokers.requests(list_transactions.ListTransactionsRequest)
    assert sorted(asked_for, key=lambda row: row[0]) == [(1, wanted), (2, wanted), (3, wanted)]


def test_a_state_that_brokers_do_not_know_is_an_error() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.LIST_TRANSACTIONS] = lambda _node, request: list_transactions.ListTransactionsResponse(
        error_code=ErrorCode.NONE, unknown_state_filters=request.state_filters
    )
    with pytest.raises(RequestRefused, match="knows no state asleep"):
        asked(brokers, lambda admin: admin.transactions.list(states=["asleep"]), default_api_timeout_ms="500")


def test_a_list_that_would_lack_the_ids_of_a_broker_is_not_given() -> None:
    script = Script()
    listing = script.brokers.scripts[ApiKey.LIST_TRANSACTIONS]
    script.brokers.scripts[ApiKey.LIST_TRANSACTIONS] = lambda node, request: (
        None if node == 2 else listing(node, request)
    )
    limits = {"default.api.timeout.ms": "5000", "request.timeout.ms": "1000"}
    with pytest.raises(ConnectionLost, match="LIST_TRANSACTIONS"):
        asked(script.brokers, lambda admin: admin.transactions.list(), **limits)


def test_ids_are_described_by_their_coordinators() -> None:
    script = Script()
    script.knows("a", 11, at=2, partitions=(1, 0))
    script.knows("idle", 12, "CompleteCommit", at=3)
    script.coordinators["nobody"] = 3
    assert asked(script.brokers, lambda admin: admin.transactions.describe(["a", "idle", "nobody"])) == {
        "a": TransactionDescription(
            transactional_id="a",
            coordinator=2,
            state="Ongoing",
            timeout_ms=5_000,
            producer_id=11,
            producer_epoch=3,
            start_ms=700,
            partitions=(T0, TopicPartition("t", 1)),
        ),
        "idle": TransactionDescription(
            transactional_id="idle",
            coordinator=3,
            state="CompleteCommit",
            timeout_ms=5_000,
            producer_id=12,
            producer_epoch=3,
        ),
        "nobody": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }


def speaks_at_most(brokers: ScriptedBrokers, key: ApiKey, version: int) -> None:
    """Let brokers be as old as this."""
    rows = tuple(replace(row, max_version=version) if row.api_key == key else row for row in advertised_versions())
    answer = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=rows)
    brokers.scripts[ApiKey.API_VERSIONS] = lambda _node, _request: answer


def test_brokers_that_are_too_old_for_a_filter_are_named() -> None:
    script = Script()
    script.knows("a", 11, at=1)
    speaks_at_most(script.brokers, ApiKey.LIST_TRANSACTIONS, 0)
    with pytest.raises(UnsupportedApi, match="too old to choose transactions by duration or pattern"):
        asked(script.brokers, lambda admin: admin.transactions.list(duration_ms=1))


def test_brokers_that_name_one_coordinator_at_a_time_are_asked_for_a_transactional_id() -> None:
    brokers = ScriptedBrokers()
    speaks_at_most(brokers, ApiKey.FIND_COORDINATOR, 3)
    brokers.scripts[ApiKey.FIND_COORDINATOR] = lambda _node, request: FindCoordinatorResponse(
        node_id=2 if (request.key, request.key_type) == ("a", 1) else 3, host="h", port=1
    )
    assert asked(brokers, lambda admin: admin.transactions.find_coordinators(["a"])) == {"a": 2}


# Who holds readers back.


def test_the_first_open_transaction_holds_a_partition_back() -> None:
    script = Script()
    script.brokers.append(*[b"x"] * 10)
    script.last_stable_offset = 4
    script.has_open((12, 6), (11, 4), (13, -1))
    script.knows("a", 11, at=2, partitions=(0,))
    found = asked(script.brokers, lambda admin: admin.transactions.holders([T0]))[T0]
    assert not isinstance(found, ErrorCode)
    assert (found.last_stable_offset, found.high_watermark, found.waiting_count) == (4, 10, 6)
    assert [one.producer.producer_id for one in found.open] == [11, 12]
    assert found.holder is not None
    assert found.holder.transaction is not None
    assert (found.holder.transaction.transactional_id, found.holder.is_hanging) == ("a", False)
    assert found.open[1].is_hanging


def test_a_transaction_that_ended_meanwhile_holds_nothing_back() -> None:
    script = Script()
    script.brokers.append(*[b"x"] * 10)
    script.last_stable_offset = 10
    script.has_open((11, 4))
    offsets = script.brokers.scripts[ApiKey.LIST_OFFSETS]

    def end_and_tell(node: BrokerId, request: Any) -> Any:
        script.producers = ()
        return offsets(node, request)

    script.brokers.scripts[ApiKey.LIST_OFFSETS] = end_and_tell
    found = asked(script.brokers, lambda admin: admin.transactions.holders([T0]))[T0]
    assert not isinstance(found, ErrorCode)
    assert (found.holder, found.open, found.waiting_count) == (None, (), 0)


@pytest.mark.parametrize(("stable", "is_waited_for"), [(6, True), (10, False)])
def test_a_transaction_whose_first_records_are_deleted_holds_back_what_comes_after_them(
    stable: int, *, is_waited_for: bool
) -> None:
    """Everything is stable up to where the log begins, though the transaction began before."""
    script = Script()
    script.brokers.append(*[b"x"] * 10)
    script.last_stable_offset = stable
    script.has_open((11, 4))
    found = asked(script.brokers, lambda admin: admin.transactions.holders([T0]))[T0]
    assert not isinstance(found, ErrorCode)
    assert [one.first_offset for one in found.open] == [4]
    assert (found.holder is not None, found.waiting_count) == (is_waited_for, 10 - stable)


def test_a_transaction_of_which_nothing_can_be_read_yet_holds_nothing_back() -> None:
    script = Script()
    script.brokers.append(*[b"x"] * 10)
    script.last_stable_offset = 10
    script.has_open((11, 10))
    found = asked(script.brokers, lambda admin: admin.transactions.holders([T0]))[T0]
    assert not isinstance(found, ErrorCode)
    assert found.holder is None
    assert [one.first_offset for one in found.open] == [10]


# Hanging transactions.


def hanging(script: Script, **settings: str) -> dict[TopicPartition, tuple[OpenTransaction, ...] | ErrorCode]:
    return asked(
        script.brokers, lambda admin: admin.transactions.find_hanging([T0], max_timeout_ms=MINUTE_MS), **settings
    )


def test_an_old_transaction_that_no_coordinator_knows_hangs() -> None:
    script = Script()
    script.has_open((11, 4))
    assert hanging(script) == {
        T0: (OpenTransaction(topic_partition=T0, producer=opened(11, 4), transaction=None),),
    }


def test_an_old_transaction_hangs_in_a_partition_that_its_coordinator_does_not_count_among_its_own() -> None:
    script = Script()
    script.has_open((11, 4))
    script.knows("a", 11, at=2, partitions=(1,))
    (found,) = hanging(script).values()
    assert not isinstance(found, ErrorCode)
    assert [one.transaction is not None and one.transaction.transactional_id for one in found] == ["a"]


def test_an_old_transaction_that_its_coordinator_will_end_does_not_hang() -> None:
    script = Script()
    script.has_open((11, 4))
    script.knows("a", 11, at=2, partitions=(0,))
    assert hanging(script) == {}


def test_a_transaction_that_is_written_to_does_not_hang() -> None:
    script = Script()
    script.has_open((11, 4), last_timestamp=2**60)
    assert hanging(script) == {}


def test_a_transaction_that_ends_while_its_coordinator_is_asked_does_not_hang() -> None:
    script = Script()
    script.has_open((11, 4))
    listing = script.brokers.scripts[ApiKey.LIST_TRANSACTIONS]

    def end_and_list(node: BrokerId, request: Any) -> Any:
        script.producers = ()
        return listing(node, request)

    script.brokers.scripts[ApiKey.LIST_TRANSACTIONS] = end_and_list
    assert hanging(script) == {}


def test_nothing_is_said_to_hang_while_a_part_of_the_transaction_log_has_no_leader() -> None:
    script = Script()
    script.has_open((11, 4))
    script.log_leaders = [(1, -1)]
    with pytest.raises(RequestRefused, match="no leader of partition 1"):
        hanging(script)


def test_coordinators_are_asked_again_if_one_took_over_meanwhile() -> None:
    script = Script()
    script.has_open((11, 4))
    script.log_leaders = [(1, 2), (1, 3), (1, 3), (1, 3)]
    hanging(script)
    assert len(script.brokers.requests(list_transactions.ListTransactionsRequest)) == 6


def test_a_partition_that_is_not_there_is_told_of() -> None:
    nowhere = TopicPartition("t", 7)
    found = asked(Script().brokers, lambda admin: admin.transactions.find_hanging([nowhere]))
    assert found == {nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# Ending.


@pytest.mark.parametrize(("coordinator_epoch", "written"), [(6, 6), (-1, 0)])
def test_a_hanging_transaction_is_aborted_by_the_leader_of_its_partition(coordinator_epoch: int, written: int) -> None:
    brokers = ScriptedBrokers()
    codes = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]  # from the end

    def script(_node: BrokerId, request: write_txn_markers.WriteTxnMarkersRequest) -> Any:
        row = write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=0, error_code=codes.pop())
        topic = write_txn_markers.WritableTxnMarkerTopicResult(name="t", partitions=(row,))
        marker = write_txn_markers.WritableTxnMarkerResult(producer_id=11, topics=(topic,))
        return write_txn_markers.WriteTxnMarkersResponse(markers=(marker,))

    brokers.scripts[ApiKey.WRITE_TXN_MARKERS] = script
    asked(
        brokers,
        lambda admin: admin.transactions.abort(T0, ProducerIdentity(11, 3), coordinator_epoch=coordinator_epoch),
    )
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=11,
        producer_epoch=3,
        transaction_result=False,
        topics=(write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
        coordinator_epoch=written,
    )
    wanted = write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))
    assert brokers.requests(write_txn_markers.WriteTxnMarkersRequest) == [(1, wanted), (1, wanted)]


def test_a_marker_that_is_refused_is_an_error() -> None:
    brokers = ScriptedBrokers()
    row = write_txn_markers.WritableTxnMarkerPartitionResult(
        partition_index=0, error_code=ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    topic = write_txn_markers.WritableTxnMarkerTopicResult(name="t", partitions=(row,))
    answer = write_txn_markers.WriteTxnMarkersResponse(
        markers=(write_txn_markers.WritableTxnMarkerResult(producer_id=11, topics=(topic,)),)
    )
    brokers.scripts[ApiKey.WRITE_TXN_MARKERS] = lambda _node, _request: answer
    with pytest.raises(RequestRefused, match="TRANSACTION_COORDINATOR_FENCED"):
        asked(brokers, lambda admin: admin.transactions.abort(T0, ProducerIdentity(11, 3), coordinator_epoch=6))


def test_an_id_is_fenced_as_a_new_producer_would_until_its_transaction_is_aborted() -> None:
    script = Script()
    script.coordinators |= {"a": 2, "b": 3}
    busy = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2

    def init(node: BrokerId, request: init_producer_id.InitProducerIdRequest) -> Any:
        code = busy.pop() if request.transactional_id == "a" and busy else ErrorCode.NONE
        if request.transactional_id == "b":
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        is_ok = code is ErrorCode.NONE
        return init_producer_id.InitProducerIdResponse(
            error_code=code, producer_id=11 if is_ok else -1, producer_epoch=5 if is_ok else -1
        )

    script.brokers.scripts[ApiKey.INIT_PRODUCER_ID] = init
    assert asked(script.brokers, lambda admin: admin.transactions.fence(["a", "b"])) == {
        "a": ProducerIdentity(11, 5),
        "b": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
    fresh = [
        (node, request.producer_id, request.producer_epoch)
        for node, request in script.brokers.requests(init_producer_id.InitProducerIdRequest)
    ]
    assert sorted(fresh) == [(2, -1, -1), (2, -1, -1), (2, -1, -1), (3, -1, -1)]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_prepared_transaction_is_ended_in_its_producers_name(is_committed: bool) -> None:
    script = Script()
    script.coordinators["a"] = 2
    busy = [ErrorCode.CONCURRENT_TRANSACTIONS]
    script.brokers.scripts[ApiKey.END_TXN] = lambda _node, _request: end_txn.EndTxnResponse(
        error_code=busy.pop() if busy else ErrorCode.NONE, producer_id=11, producer_epoch=4
    )
    following = asked(
        script.brokers,
        lambda admin: admin.transactions.end("a", ProducerIdentity(11, 3), is_committed=is_committed),
    )
    assert following is None  # since these brokers do not say that each transaction has an epoch of its own
    wanted = end_txn.EndTxnRequest(transactional_id="a", producer_id=11, producer_epoch=3, committed=is_committed)
    assert script.brokers.requests(end_txn.EndTxnRequest) == [(2, wanted), (2, wanted)]


def test_who_may_not_end_a_transaction_is_told() -> None:
    script = Script()
    script.coordinators["a"] = 2
    script.brokers.scripts[ApiKey.END_TXN] = lambda _node, _request: end_txn.EndTxnResponse(
        error_code=ErrorCode.PRODUCER_FENCED
    )
    with pytest.raises(RequestRefused, match="PRODUCER_FENCED: transactional id 'a'"):
        asked(script.brokers, lambda admin: admin.transactions.end("a", ProducerIdentity(11, 3), is_committed=True))
