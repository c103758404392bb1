"""What a broker says to those who do not speak its language: nothing, and it serves the next one."""

from __future__ import annotations

import struct

import pytest

from tests.broker.conversation import Conversation
from tests.broker.test_versions import produced
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.slow


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def headed(key: int, version: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", key, version, 7, -1) + body)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="tls-hello"),
        pytest.param(struct.pack(">i", -1), id="negative-size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="largest-size"),
        pytest.param(framed(b""), id="empty-frame"),
        pytest.param(framed(b"\x00\x03"), id="half-a-header"),
        pytest.param(headed(-1, 0), id="negative-key"),
        pytest.param(headed(9999, 0), id="unknown-key"),
        pytest.param(headed(ApiKey.METADATA, 99), id="unknown-version"),
        pytest.param(headed(ApiKey.PRODUCE, 2), id="produce-advertised-but-not-served"),
        pytest.param(headed(ApiKey.SHARE_FETCH, 1), id="api-not-advertised"),
        pytest.param(headed(ApiKey.METADATA, 12, bytes.fromhex("00 ff ff ff ff 0f")), id="metadata-count-bomb"),
    ],
)
def test_nonsense_ends_the_connection_and_nothing_else(tidelog: TidelogProcess, data: bytes) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.send_bytes(data)
        assert conversation.is_closed_by_peer()
    with Conversation(tidelog.bootstrap) as conversation:
        assert conversation.ask(MetadataRequest(topics=()), 9).brokers


def test_an_unknown_api_versions_version_is_answered_in_version_0(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.send_bytes(headed(ApiKey.API_VERSIONS, 127))
        answer = conversation.hear(RequestHeader(ApiKey.API_VERSIONS, 0, 7, None))
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code is ErrorCode.UNSUPPORTED_VERSION
        assert (ApiKey.API_VERSIONS, 0, 4) in {
            (row.api_key, row.min_version, row.max_version) for row in answer.api_keys
        }
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert conversation.ask(request, 3).error_code is ErrorCode.NONE


def test_a_client_software_name_with_blanks_is_refused(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        request = ApiVersionsRequest(client_software_name="two words\n", client_software_version="1")
        assert conversation.ask(request, 3).error_code is ErrorCode.INVALID_REQUEST


def test_pipelined_requests_are_answered_in_order(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        headers = [conversation.send(MetadataRequest(topics=()), version) for version in (0, 13, 4, 9, 1) * 20]
        for header in headers:
            conversation.hear(header)


def test_acks_0_is_never_answered_and_an_error_closes_the_connection(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.send(produced(conversation, 9, "acks-0", acks=0), 9)
        (metadata,) = conversation.ask(MetadataRequest(topics=None), 9).brokers
        assert metadata.node_id == 1
        request = produced(conversation, 9, "acks-0", acks=0)
        request.topic_data[0].partition_data[0].records[-1] ^= 1  # type: ignore[index]  # a bytearray: breaks the checksum
        conversation.send(request, 9)
        assert conversation.is_closed_by_peer()


def test_acks_2_is_refused_for_every_partition(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        (answered,) = conversation.ask(produced(conversation, 9, "acks-2", acks=2), 9).responses
        assert answered.partition_responses[0].error_code is ErrorCode.INVALID_REQUIRED_ACKS
