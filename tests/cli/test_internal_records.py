"""Records of internal topics for people: the expected lines were printed by the formatters of Kafka 4.1.0."""

from __future__ import annotations

import pytest

from tidelog.cli.internal_records import formatter
from tidelog.cli.shown_record import ShownRecord

offset_line, group_line, transaction_line = (
    formatter(name, is_json=True) for name in ("offsets", "group-metadata", "transactions")
)

OFFSET_KEY = "0001000167000374c3a900000007"
KEY_LINE = '{"key":{"type":1,"data":{"group":"g","topic":"té","partition":7}},"value":'


def record(key: str, value: str | None) -> ShownRecord:
    return ShownRecord(
        "__consumer_offsets", 0, 0, 0, bytes.fromhex(key), None if value is None else bytes.fromhex(value), ()
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "0000000000000000002a00016d00000000000003e8",
            '{"version":0,"data":{"offset":42,"metadata":"m","commitTimestamp":1000}}',
        ),
        (
            "0001000000000000002a00016d00000000000003e800000000000007d0",
            '{"version":1,"data":{"offset":42,"metadata":"m","commitTimestamp":1000,"expireTimestamp":2000}}',
        ),
        (
            "0003000000000000002a0000000500016d00000000000003e8",
            '{"version":3,"data":{"offset":42,"leaderEpoch":5,"metadata":"m","commitTimestamp":1000}}',
        ),
        (
            "0004000000000000002a00000005026d00000000000003e800",
            '{"version":4,"data":{"offset":42,"leaderEpoch":5,"metadata":"m","commitTimestamp":1000}}',
        ),
        (
            "0004000000000000002a00000005026d00000000000003e80100100123456789abcdef0fedcba987654321",
            '{"version":4,"data":{"offset":42,"leaderEpoch":5,"metadata":"m","commitTimestamp":1000,'
            '"topicId":"ASNFZ4mrze8P7cuph2VDIQ"}}',
        ),
        (None, "null"),
    ],
)
def test_an_offset_is_printed_as_kafka_prints_it(value: str | None, shown: str) -> None:
    assert offset_line(record(OFFSET_KEY, value)).decode() == f"{KEY_LINE}{shown}}}\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "00000008636f6e73756d657200000003000572616e676500016100000001000161000163000a2f3132372e302e302e310000afc8"
            "0000000201020000000103",
            '{"version":0,"data":{"protocolType":"consumer","generation":3,"protocol":"range","leader":"a",'
            '"members":[{"memberId":"a","clientId":"c","clientHost":"/127.0.0.1","sessionTimeout":45000,'
            '"subscription":"AQI=","assignment":"Aw=="}]}}',
        ),
        (
            "00030008636f6e73756d657200000003000572616e676500016100000000000003e800000001000161000169000163000a2f3132"
            "372e302e302e31000493e00000afc80000000201020000000103",
            '{"version":3,"data":{"protocolType":"consumer","generation":3,"protocol":"range","leader":"a",'
            '"currentStateTimestamp":1000,"members":[{"memberId":"a","groupInstanceId":"i","clientId":"c",'
            '"clientHost":"/127.0.0.1","rebalanceTimeout":300000,"sessionTimeout":45000,"subscription":"AQI=",'
            '"assignment":"Aw=="}]}}',
        ),
        (None, "null"),
    ],
)
def test_a_group_is_printed_as_kafka_prints_it(value: str | None, shown: str) -> None:
    assert group_line(record("0002000167", value)).decode() == (
        f'{{"key":{{"type":2,"data":{{"group":"g"}}}},"value":{shown}}}\n'
    )


def test_records_of_other_kinds_are_left_out() -> None:
    assert offset_line(record("0002000167", None)) == b""
    assert group_line(record(OFFSET_KEY, None)) == b""
    assert offset_line(record("00", None)) == b""
    assert offset_line(ShownRecord("t", 0, 0, 0, None, b"no key", ())) == b""


def test_what_cannot_be_read_does_not_end_the_reading() -> None:
    assert b'"value":{"version":9,"data":"unknown"}' in offset_line(record(OFFSET_KEY, "0009"))
    assert b'"data":"unknown"' in offset_line(record("0001ffff", None))


TRANSACTION_KEY = "000000025061"
TRANSACTION_KEY_LINE = '{"key":{"type":0,"data":{"transactionalId":"Pa"}},"value":'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            # Empty, version 0: no partitions at all.
            "00000000000000000fa000030000ea6000ffffffff00000000000003e8ffffffffffffffff",
            '{"version":0,"data":{"producerId":4000,"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":0,'
            '"transactionPartitions":null,"transactionLastUpdateTimestampMs":1000,"transactionStartTimestampMs":-1}}',
        ),
        (
            # Ongoing, version 1, of a client that speaks version 2 of transactions.
            "00010000000000000fa000030000ea60010202740300000000000000020000000000000003e800000000000002ee0102020002",
            '{"version":1,"data":{"producerId":4000,"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":1,'
            '"transactionPartitions":[{"topic":"t","partitionIds":[0,2]}],"transactionLastUpdateTimestampMs":1000,'
            '"transactionStartTimestampMs":750,"clientTransactionVersion":2}}',
        ),
        (
            # Complete, version 1.
            "00010000000000000fa000030000ea60040100000000000003e800000000000002ee00",
            '{"version":1,"data":{"producerId":4000,"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":4,'
            '"transactionPartitions":[],"transactionLastUpdateTimestampMs":1000,"transactionStartTimestampMs":750}}',
        ),
        ("000500", '{"version":5,"data":"unknown"}'),
        (None, "null"),
    ],
)
def test_a_transactional_id_is_printed_as_kafka_prints_it(value: str | None, shown: str) -> None:
    assert transaction_line(record(TRANSACTION_KEY, value)).decode() == f"{TRANSACTION_KEY_LINE}{shown}}}\n"


def test_what_is_no_transactional_id_is_left_out() -> None:
    assert transaction_line(record("000100025061", None)) == b""


MEMBER = (
    "MemberMetadata(memberId=a, groupInstanceId=Some(i), clientId=c, clientHost=/127.0.0.1, sessionTimeoutMs=45000, "
    "rebalanceTimeoutMs=300000)"
)


@pytest.mark.parametrize(
    ("name", "key", "value", "line"),
    [
        # The shape in which Kafka 1 printed what it committed.
        (
            "offsets",
            OFFSET_KEY,
            "0001000000000000002a00016d00000000000003e800000000000007d0",
            "[g,té,7]::[OffsetMetadata[42,m],CommitTime 1000,ExpirationTime 2000]",
        ),
        (
            "offsets",
            OFFSET_KEY,
            "0004000000000000002a000000050100000000000003e800",
            "[g,té,7]::[OffsetMetadata[42,NO_METADATA],CommitTime 1000,ExpirationTime _]",
        ),
        ("offsets", OFFSET_KEY, None, "[g,té,7]::NULL"),
        ("offsets", OFFSET_KEY, "0009", "[g,té,7]::unknown"),
        ("offsets", "0001ffff", None, "unknown::NULL"),
        (
            "group-metadata",
            "0002000167",
            "00030008636f6e73756d657200000003000572616e676500016100000000000003e800000001000161000169000163000a2f3132"
            "372e302e302e31000493e00000afc80000000201020000000103",
            "g::GroupMetadata(groupId=g, generation=3, protocolType=Some(consumer), currentState=Stable, "
            f"members=Map(a -> {MEMBER}))",
        ),
        (
            "group-metadata",
            "0002000167",
            "00030008636f6e73756d657200000004ffffffff00000000000003e800000000",
            "g::GroupMetadata(groupId=g, generation=4, protocolType=Some(consumer), currentState=Empty, members=Map())",
        ),
        ("group-metadata", "0002000167", None, "g::NULL"),
        (
            "transactions",
            TRANSACTION_KEY,
            "00010000000000000fa000030000ea60010202740300000000000000020000000000000003e800000000000002ee0102020002",
            "Pa::TransactionMetadata(transactionalId=Pa, producerId=4000, producerEpoch=3, txnTimeoutMs=60000, "
            "state=Ongoing, pendingState=None, topicPartitions=Set(t-0, t-2), txnStartTimestamp=750, "
            "txnLastUpdateTimestamp=1000)",
        ),
        ("transactions", TRANSACTION_KEY, None, "Pa::NULL"),
    ],
)
def test_people_are_shown_a_line_in_the_shape_of_earlier_versions_of_kafka(
    name: str, key: str, value: str | None, line: str
) -> None:
    assert formatter(name, is_json=False)(record(key, value)).decode() == f"{line}\n"
    assert formatter(name, is_json=False)(record("00", None)) == b""
