"""Messages that say themselves how they are written. The bytes are what the Java client 3.9.2 wrote for the same values."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import pytest

from tests.wire.oracle import Case
from tidelog.model import ErrorCode, InvariantBroken
from tidelog.wire.api import API_TABLE, ApiKey, Request, Response
from tidelog.wire.codec import decode_request, decode_response
from tidelog.wire.decoder import compile_decoder
from tidelog.wire.definition import message
from tidelog.wire.encoder import compile_encoder
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.layout import declared_layout
from tidelog.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from tidelog.wire.messages.count_visible_records import (
    CountFrom,
    CountInTopic,
    CountVisibleRecordsRequest,
    CountVisibleRecordsResponse,
    VisibleRecordsOfPartition,
    VisibleRecordsOfTopic,
)
from tidelog.wire.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    RemoteReplica,
    ReplicaOfPartition,
    ReplicasOfTopic,
    ReplicasWanted,
)
from tidelog.wire.messages.inject_faults import (
    BEGIN,
    Fault,
    FaultKind,
    InjectFaultsRequest,
    InjectFaultsResponse,
)
from tidelog.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from tidelog.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from tidelog.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from tidelog.wire.schema import Int8, Int32, Int64, Tagged

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")

WRITTEN_BY_KAFKA: list[tuple[Request[Response] | Response, str]] = [
    (
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=1 << 40,
            type=2,
            topic_states=(
                LeaderAndIsrTopicState(
                    topic_name="orders",
                    topic_id=TOPIC_ID,
                    partition_states=(
                        LeaderAndIsrPartitionState(
                            partition_index=3,
                            controller_epoch=6,
                            leader=2,
                            leader_epoch=9,
                            isr=(2, 3),
                            partition_epoch=12,
                            replicas=(1, 2, 3, 4),
                            adding_replicas=(4,),
                            removing_replicas=(1,),
                            is_new=True,
                            leader_recovery_state=1,
                        ),
                    ),
                ),
            ),
            live_leaders=(LeaderAndIsrLiveLeader(broker_id=2, host_name="b2", port=9093),),
        ),
        "00000001000000000700000100000000000202076f726465727300112233445566778899aabbccddeeff020000000300"
        "00000600000002000000090300000002000000030000000c050000000100000002000000030000000402000000040200"
        "000001010100000200000002036232000023850000",
    ),
    (
        LeaderAndIsrResponse(
            error_code=ErrorCode.NONE,
            topics=(
                LeaderAndIsrTopicError(
                    topic_id=TOPIC_ID,
                    partition_errors=(
                        LeaderAndIsrPartitionError(partition_index=3, error_code=ErrorCode.KAFKA_STORAGE_ERROR),
                    ),
                ),
            ),
        ),
        "00000200112233445566778899aabbccddeeff02000000030038000000",
    ),
    (
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=1 << 40,
            topic_states=(
                StopReplicaTopicState(
                    topic_name="orders",
                    partition_states=(
                        StopReplicaPartitionState(partition_index=3, leader_epoch=-2, delete_partition=True),
                        StopReplicaPartitionState(partition_index=4, delete_partition=False),
                    ),
                ),
            ),
        ),
        "000000010000000007000001000000000002076f72646572730300000003fffffffe010000000004ffffffff00000000",
    ),
    (
        StopReplicaResponse(
            error_code=ErrorCode.NONE,
            partition_errors=(
                StopReplicaPartitionError(
                    topic_name="orders", partition_index=3, error_code=ErrorCode.FENCED_LEADER_EPOCH
                ),
            ),
        ),
        "000002076f726465727300000003004a0000",
    ),
    (
        UpdateMetadataRequest(
            controller_id=1,
            type=2,
            controller_epoch=7,
            broker_epoch=1 << 40,
            topic_states=(
                UpdateMetadataTopicState(
                    topic_name="orders",
                    topic_id=TOPIC_ID,
                    partition_states=(
                        UpdateMetadataPartitionState(
                            partition_index=3,
                            controller_epoch=6,
                            leader=-2,
                            leader_epoch=9,
                            isr=(2, 3),
                            zk_version=12,
                            replicas=(1, 2, 3),
                            offline_replicas=(1,),
                        ),
                    ),
                ),
            ),
            live_brokers=(
                UpdateMetadataBroker(
                    id=2,
                    endpoints=(
                        UpdateMetadataEndpoint(port=9092, host="b2", listener="PLAINTEXT", security_protocol=0),
                    ),
                    rack="r1",
                ),
                UpdateMetadataBroker(id=3, endpoints=()),
            ),
        ),
        "000000010000000007000001000000000002076f726465727300112233445566778899aabbccddeeff02000000030000"
        "0006fffffffe000000090300000002000000030000000c04000000010000000200000003020000000100000300000002"
        "02000023840362320a504c41494e54455854000000037231000000000301000001000102",
    ),
    (
        UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH),
        "000b00",
    ),
    (
        ControlledShutdownRequest(broker_id=2, broker_epoch=1 << 40),
        "00000002000001000000000000",
    ),
    (
        ControlledShutdownResponse(
            error_code=ErrorCode.NONE,
            remaining_partitions=(RemainingPartition(topic_name="orders", partition_index=3),),
        ),
        "000002076f7264657273000000030000",
    ),
]


@pytest.mark.parametrize(("written", "hexadecimal"), WRITTEN_BY_KAFKA, ids=lambda value: type(value).__name__)
def test_requests_of_the_controller_have_the_bytes_that_kafka_gave_them(
    written: Request[Response] | Response, hexadecimal: str
) -> None:
    case = case_of(written)
    assert b"".join(case.encode(written)).hex() == hexadecimal
    assert case.decode(bytes.fromhex(hexadecimal)) == written


def case_of(value: Request[Response] | Response) -> Case:
    (api,) = (api for api in API_TABLE.values() if type(value) in {api.request, api.response})
    return Case(api.key, api.served.high, is_request=isinstance(value, Request))


def test_description_of_replicas_comes_back_as_it_was_sent() -> None:
    partition = ReplicaOfPartition(
        partition_index=3,
        error_code=ErrorCode.NONE,
        is_leader=True,
        leader_id=1,
        leader_epoch=5,
        last_epoch=4,
        log_start_offset=10,
        log_end_offset=1 << 40,
        high_watermark=30,
        last_stable_offset=20,
        isr=(1, 2),
        assignment=(1, 2, 3),
        remotes=(RemoteReplica(broker_id=2, log_end_offset=29, last_caught_up_ms=-1),),
    )
    refused = ReplicaOfPartition(partition_index=4, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    response = DescribeReplicasResponse(
        broker_id=1,
        broker_epoch=1 << 33,
        topics=(ReplicasOfTopic(topic="t", topic_id=TOPIC_ID, partitions=(partition, refused)),),
    )
    wanted = DescribeReplicasRequest(topics=(ReplicasWanted(topic="t", partitions=(3, 4)),))
    for sent in (response, wanted, DescribeReplicasRequest(topics=None)):
        case = case_of(sent)
        assert case.decode(b"".join(case.encode(sent))) == sent


def test_count_visible_records_says_everything_it_was_told() -> None:
    counted = VisibleRecordsOfPartition(
        partition_index=3,
        error_code=ErrorCode.NONE,
        visible_count=1 << 40,
        is_exact=True,
        counted_to=1 << 41,
        last_stable_offset=1 << 42,
        high_watermark=1 << 43,
        log_start_offset=7,
    )
    refused = VisibleRecordsOfPartition(partition_index=4, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response = CountVisibleRecordsResponse(topics=(VisibleRecordsOfTopic(topic="t", partitions=(counted, refused)),))
    wanted = CountFrom(partition_index=3, offset=1 << 40, current_leader_epoch=5)
    request = CountVisibleRecordsRequest(topics=(CountInTopic(topic="t", partitions=(wanted,)),))
    for sent in (response, request):
        case = case_of(sent)
        assert case.decode(b"".join(case.encode(sent))) == sent


def test_inject_faults_says_everything_it_was_told() -> None:
    fault = Fault(
        kind=FaultKind.ANSWER,
        peer_id=3,
        is_of_brokers=True,
        api_key=ApiKey.FETCH,
        error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        delay_ms=250,
        times=7,
    )
    request = InjectFaultsRequest(action=BEGIN, faults=(fault, Fault(kind=FaultKind.CUT)))
    response = InjectFaultsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="no", faults=(fault,))
    for sent in (response, request):
        case = case_of(sent)
        assert case.decode(b"".join(case.encode(sent))) == sent


def test_no_topics_and_all_topics_are_told_apart() -> None:
    case = Case(ApiKey.DESCRIBE_REPLICAS, 0, is_request=True)
    encoded = [b"".join(case.encode(DescribeReplicasRequest(topics=topics))) for topics in (None, ())]
    assert encoded == [b"\0\0", b"\1\0"]


@message
class Inner:
    number: Int8


@message
class Everything:
    text: str | None
    inner: Inner | None
    late: Annotated[Int64, Tagged(1)] = -1
    early: Annotated[tuple[Int32, ...], Tagged(0)] = ()
    numbers: tuple[Int32, ...] | None


def test_tagged_fields_go_to_the_end_in_the_order_of_their_tags() -> None:
    layout = declared_layout(Everything, is_flexible=True)
    value = Everything(text=None, inner=Inner(number=-1), late=5, early=(7,), numbers=None)
    out = bytearray()
    compile_encoder(layout)(out, value)
    assert out.hex(" ") == (
        "00"  # null text
        " 01 ff 00"  # an inner struct is there, its number, no tags
        " 00"  # null numbers
        " 02 00 05 02 00 00 00 07 01 08 00 00 00 00 00 00 00 05"
    )
    assert compile_decoder(layout)(memoryview(out), 0) == (value, len(out))


def test_tagged_fields_that_have_their_default_are_left_out() -> None:
    layout = declared_layout(Everything, is_flexible=True)
    value = Everything(text="", inner=None, numbers=())
    out = bytearray()
    compile_encoder(layout)(out, value)
    assert out.hex(" ") == "01 ff 01 00"
    assert compile_decoder(layout)(memoryview(out), 0) == (value, len(out))


@message
class Vague:
    number: int


@message
class TaggedWithoutDefault:
    number: Annotated[Int8, Tagged(0)]


def test_a_number_without_a_width_is_refused() -> None:
    with pytest.raises(InvariantBroken, match="number says how it is written"):
        declared_layout(Vague, is_flexible=True)


def test_a_tagged_field_needs_a_default() -> None:
    with pytest.raises(InvariantBroken, match="tagged field number has a default"):
        declared_layout(TaggedWithoutDefault, is_flexible=True)


@pytest.mark.parametrize(("written", "hexadecimal"), WRITTEN_BY_KAFKA, ids=lambda value: type(value).__name__)
def test_every_cut_of_such_a_message_is_malformed(written: Request[Response] | Response, hexadecimal: str) -> None:
    case = case_of(written)
    body = bytes.fromhex(hexadecimal)
    decode = decode_request if case.is_request else decode_response
    for length in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode(case.key, case.version, body[:length])
