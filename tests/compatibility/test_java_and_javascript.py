"""The Java clients 3.9 and 4.x and KafkaJS, unmodified, against a broker as a user starts it: sending and reading."""

from __future__ import annotations

import pytest

from tests.compatibility.drivers import ClientError, Driver, Found, Received, Sent
from tests.compatibility.message import BASE_TIMESTAMP_MS, CODECS, Message, messages
from tests.compatibility.processes import TidelogProcess
from tests.compatibility.test_python_clients import confluent_consume, confluent_produce, stored_codecs

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_what_it_wrote(client: Driver, tidelog: TidelogProcess, topic: str, codec: str) -> None:
    sent = client.produce(topic, messages(), compression_type=codec, acks="all", enable_idempotence="true")
    assert sent[0][:2] == (0, 0)
    assert client.consume(topic, len(messages())) == [*map(Received, range(54), messages())]
    assert stored_codecs(tidelog.bootstrap, topic) == {codec}


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_what_a_client_wrote(client: Driver, tidelog: TidelogProcess, topic: str, codec: str) -> None:
    client.produce(topic, messages(), compression_type=codec)
    assert confluent_consume(tidelog.bootstrap, topic, len(messages())) == messages()


@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_what_librdkafka_wrote(client: Driver, tidelog: TidelogProcess, topic: str, codec: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, codec, messages())
    assert [received.message for received in client.consume(topic, len(messages()))] == messages()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_client_may_ask_for_any_acknowledgement(client: Driver, topic: str, acks: str) -> None:
    sent = client.produce(topic, messages(), acks=acks, enable_idempotence="false")
    if acks == "0":
        assert {where.offset for where in sent} <= {-1}  # nobody said
    else:
        assert sent[0].offset == 0
    assert len(client.consume(topic, len(messages()))) == len(messages())


def test_java_is_told_where_each_record_went(java: Driver, topic: str) -> None:
    sent = java.produce(topic, messages())
    assert sent == [Sent(0, offset, message.timestamp_ms) for offset, message in enumerate(messages())]


def test_java_headers_may_have_no_value(java: Driver, tidelog: TidelogProcess, topic: str) -> None:
    message = Message(b"k", b"v", (("none", None), ("empty", b""), ("", b"no name")), BASE_TIMESTAMP_MS)
    java.produce(topic, [message])
    assert java.consume(topic, 1) == [Received(0, message)]
    assert confluent_consume(tidelog.bootstrap, topic, 1) == [message]


def test_java_spreads_keys_over_partitions_and_finds_them_there(java: Driver, topic: str) -> None:
    java.ask("create", topic, 3, "")
    keyed = [message for message in messages() if message.key]
    sent = java.produce(topic, keyed, partition=None)
    assert {where.partition for where in sent} == {0, 1, 2}
    for partition in range(3):
        expected = [message for message, where in zip(keyed, sent, strict=True) if where.partition == partition]
        received = java.consume(topic, len(expected), partition=partition)
        assert [each.message for each in received] == expected


def test_log_append_time_is_told_to_the_sender_and_the_reader(java: Driver, topic: str) -> None:
    java.ask("create", topic, 1, "message.timestamp.type=LogAppendTime")
    (sent,) = java.produce(topic, [Message(b"k", b"v", (), BASE_TIMESTAMP_MS)])
    assert sent.timestamp_ms > BASE_TIMESTAMP_MS
    ((offset, timestamp, timestamp_type, *_),) = java.ask("consume", topic, 0, "beginning", 1, "")
    assert (int(offset), int(timestamp), timestamp_type) == (0, sent.timestamp_ms, "LogAppendTime")


def test_java_seeks_into_the_middle_of_a_batch(java: Driver, topic: str) -> None:
    java.produce(topic, messages(), compression_type="zstd")
    received = java.consume(topic, 4, where=50)
    assert received == [Received(offset, messages()[offset]) for offset in range(50, 54)]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_java_finds_both_ends_and_times(java: Driver, topic: str, isolation: str) -> None:
    java.produce(topic, messages())
    found = java.positions(topic, BASE_TIMESTAMP_MS + 20, BASE_TIMESTAMP_MS + 99, isolation_level=isolation)
    assert found == {
        "beginning": Found(0, None),
        "end": Found(54, None),
        str(BASE_TIMESTAMP_MS + 20): Found(20, BASE_TIMESTAMP_MS + 20),
        str(BASE_TIMESTAMP_MS + 99): Found(None, None),
    }
    assert len(java.consume(topic, 54, isolation_level=isolation)) == 54


def test_kafkajs_finds_both_ends_and_times(node: Driver, topic: str) -> None:
    node.produce(topic, messages())
    found = node.positions(topic, BASE_TIMESTAMP_MS + 20)
    assert found == {
        "beginning": Found(0, None),
        "end": Found(54, None),
        str(BASE_TIMESTAMP_MS + 20): Found(20, None),
    }


def test_java_admin_finds_the_record_of_the_latest_time(java: Driver, topic: str) -> None:
    times = (3000, 9000, 5000)
    java.produce(topic, [Message(None, b"%d" % time, (), time) for time in times])
    rows = java.ask("list-offsets", topic, 0, "earliest", "latest", "max-timestamp", 4000)
    assert {what: (int(offset), int(time)) for what, offset, time in rows} == {
        "earliest": (0, -1),
        "latest": (3, -1),
        "max-timestamp": (1, 9000),
        "4000": (1, 9000),
    }


def test_java_hears_that_an_offset_is_out_of_range(java: Driver, topic: str) -> None:
    java.produce(topic, messages())
    with pytest.raises(ClientError) as raised:
        java.consume(topic, 1, where=99, auto_offset_reset="none")
    assert raised.value.name == "OffsetOutOfRangeException"


def test_java_hears_that_a_record_is_too_large(java: Driver, topic: str) -> None:
    java.ask("create", topic, 1, "max.message.bytes=500")
    too_large = Message(None, b"x" * 1000, (), BASE_TIMESTAMP_MS)
    with pytest.raises(ClientError) as raised:
        java.produce(topic, [too_large])
    assert raised.value.name == "RecordTooLargeException"
    assert java.produce(topic, [messages()[-1]])[0].offset == 0


def test_java_hears_that_a_compacted_topic_wants_keys(java: Driver, topic: str) -> None:
    java.ask("create", topic, 1, "cleanup.policy=compact")
    with pytest.raises(ClientError) as raised:
        java.produce(topic, [Message(None, b"no key", (), BASE_TIMESTAMP_MS)])
    assert raised.value.name == "InvalidRecordException"
