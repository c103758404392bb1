"""S05, S06, S20: record batches that lie, through Produce, to topics that look inside and to those that do not."""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Callable
from functools import cache

import crc32c
import pytest

from tests.broker.conversation import Conversation
from tests.hostile.victim import MEBIBYTE, NOW_MS, Victim, one_batch, produce
from tests.wire.fuzzer import damaged
from tidelog.model import ErrorCode
from tidelog.records import Codec, RecordBatchBuilder
from tidelog.records.compression import compress
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.timed
TOPICS: dict[str, dict[str, str]] = {
    "opaque": {},
    "compacted": {"cleanup_policy": "compact"},
    "recoded": {"compression_type": "uncompressed"},
}
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # a batch of a transaction in a request without one
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}


@pytest.fixture(scope="module", autouse=True)
def _topics(victim: Victim) -> None:
    for topic, configs in TOPICS.items():
        victim.create(topic, 1, **configs)


def sealed(batch: bytes | bytearray) -> bytearray:
    """The batch with a checksum and a length that hold, whatever its content."""
    out = bytearray(batch)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">I", out, 17, crc32c.crc32c(bytes(out[21:])))
    return out


def built(codec: Codec, count: int = 5) -> bytearray:
    builder = RecordBatchBuilder(codec=codec)
    for number in range(count):
        builder.append(timestamp_ms=NOW_MS + number, key=b"key", value=b"value" * 9, headers=[("h", b"1"), ("n", None)])
    return builder.build()


def holding(codec: Codec, payload: bytes, count: int) -> bytearray:
    """A batch whose header says `count` records and whose compressed content is `payload`."""
    header = bytearray(one_batch()[:61])
    struct.pack_into(">h", header, 21, codec)
    struct.pack_into(">i", header, 23, count - 1)
    struct.pack_into(">i", header, 57, count)
    return sealed(header + payload)


def fuzz(victim: Victim, seed: str, seconds: float) -> int:
    chance = SimulatedRandomness(seed)
    deadline = time.monotonic() + seconds
    sent = 0
    with victim.connect() as client:
        while time.monotonic() < deadline:
            batch = bytes(built(list(Codec)[chance.below(5)], 1 + chance.below(20)))
            where = chance.below(3)
            if where == 0:
                batch = damaged(batch, chance)
            elif where == 1:  # The checksum holds and the content lies.
                batch = batch[:61] + damaged(batch[61:], chance)
            else:
                batch = batch[:21] + damaged(batch[21:61], chance)[:40].ljust(40, b"\0") + batch[61:]
            if where and len(batch) >= 61:
                batch = bytes(sealed(batch))
            topic = list(TOPICS)[chance.below(len(TOPICS))]
            code = produce(client, topic, batch).error_code
            assert code in EXPECTED, (code, batch.hex())
            sent += 1
    return sent


def check_unharmed(victim: Victim, seed: str, seconds: float) -> None:
    fuzz(victim, f"{seed}/warm", 0.5)
    before = victim.rss_bytes
    assert fuzz(victim, seed, seconds) > 20 * seconds
    assert victim.serve_within_s() < 5
    assert victim.rss_bytes < before + 48 * MEBIBYTE
    assert "Traceback" not in victim.log, victim.log[-4000:]


def test_damaged_batches_get_an_error_or_are_stored(victim: Victim) -> None:
    check_unharmed(victim, "batches", 3)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_damaged_batches_harm_nobody_for_long(victim: Victim) -> None:
    check_unharmed(victim, os.environ.get("TIDELOG_FUZZ_SEED", "long"), float(os.environ.get("TIDELOG_FUZZ_S", "40")))


HEADER_LIES: list[tuple[str, Callable[[bytearray], None], ErrorCode]] = [
    ("count-2-31", lambda b: struct.pack_into(">i", b, 57, 2**31 - 1), ErrorCode.INVALID_RECORD),
    ("count-zero", lambda b: struct.pack_into(">i", b, 57, 0), ErrorCode.INVALID_RECORD),
    ("count-negative", lambda b: struct.pack_into(">i", b, 57, -1), ErrorCode.INVALID_RECORD),
    ("last-offset-delta", lambda b: struct.pack_into(">i", b, 23, 2**31 - 1), ErrorCode.INVALID_RECORD),
    ("base-offset", lambda b: struct.pack_into(">q", b, 0, 7), ErrorCode.INVALID_RECORD),
    ("magic-0", lambda b: struct.pack_into(">b", b, 16, 0), ErrorCode.INVALID_RECORD),
    ("magic-3", lambda b: struct.pack_into(">b", b, 16, 3), ErrorCode.INVALID_RECORD),
    ("codec-5", lambda b: struct.pack_into(">h", b, 21, 5), ErrorCode.INVALID_RECORD),
    ("codec-7", lambda b: struct.pack_into(">h", b, 21, 7), ErrorCode.INVALID_RECORD),
    ("control-bit", lambda b: struct.pack_into(">h", b, 21, 0x20), ErrorCode.INVALID_RECORD),
    ("delete-horizon", lambda b: struct.pack_into(">h", b, 21, 0x40), ErrorCode.INVALID_RECORD),
    ("append-time", lambda b: struct.pack_into(">h", b, 21, 0x08), ErrorCode.INVALID_TIMESTAMP),
    (
        "transactional-nobody",
        lambda b: struct.pack_into(">h", b, 21, 0x10),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("producer-without-sequence", lambda b: struct.pack_into(">q", b, 43, 5), ErrorCode.INVALID_RECORD),
    ("far-future", lambda b: struct.pack_into(">q", b, 35, 2**62), ErrorCode.NONE),
]


@pytest.mark.parametrize(
    ("lie", "code"), [(lie, code) for _, lie, code in HEADER_LIES], ids=[n for n, *_ in HEADER_LIES]
)
def test_a_header_that_lies_under_a_right_checksum_is_refused(
    victim: Victim, lie: Callable[[bytearray], None], code: ErrorCode
) -> None:
    batch = one_batch()
    lie(batch)
    with victim.connect() as client:
        assert produce(client, "opaque", sealed(batch)).error_code is code


def test_a_wrong_checksum_is_refused(victim: Victim) -> None:
    batch = one_batch()
    batch[-1] ^= 1
    with victim.connect() as client:
        assert produce(client, "opaque", batch).error_code is ErrorCode.CORRUPT_MESSAGE


@cache
def bomb(codec: Codec) -> bytes:
    """A gigabyte in a megabyte or less, where the codec can say so; else as far as it goes."""
    if codec is Codec.GZIP:
        squeezer = zlib.compressobj(9, wbits=31)
        return b"".join(squeezer.compress(bytes(MEBIBYTE)) for _ in range(900)) + squeezer.flush()
    size = {Codec.SNAPPY: 20, Codec.LZ4: 200, Codec.ZSTD: 200}[codec] * MEBIBYTE
    return compress(codec, bytes(size))[:1_040_000]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topic", ["compacted", "recoded"])
def test_a_decompression_bomb_costs_neither_memory_nor_the_others_time(
    victim: Victim, codec: Codec, topic: str
) -> None:
    batch = holding(codec, bomb(codec), 1000)
    before = victim.rss_peak_bytes
    with victim.connect() as client, victim.answering_others(within_s=0.5):
        answers = [produce(client, topic, bytearray(batch)).error_code for _ in range(3)]
    assert set(answers) <= {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD}
    assert victim.rss_peak_bytes < before + 80 * MEBIBYTE


def test_half_a_million_records_in_a_batch_do_not_hold_up_the_others(victim: Victim) -> None:
    record = bytes.fromhex("0e 00 00 00 02 6b 01 00")  # A key, no value.
    count = 500_000
    batch = holding(Codec.ZSTD, compress(Codec.ZSTD, record * count), count)
    with victim.connect() as client, victim.connect() as other:
        header = client.send(_request("compacted", batch), 9)
        slowest = max(_timed(other) for _ in range(20))
        client.hear(header)
    assert slowest < 0.5
    assert victim.serve_within_s() < 5


def test_a_lookup_by_time_does_not_expand_a_bomb_that_was_stored_unread(victim: Victim) -> None:
    victim.create("opaque-bomb")
    before = victim.rss_peak_bytes
    with victim.connect() as client:
        stored = produce(client, "opaque-bomb", holding(Codec.GZIP, bomb(Codec.GZIP), 20_000))
        assert stored.error_code is ErrorCode.NONE
        partition = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="opaque-bomb", partitions=(partition,)),)
        )
        (topic,) = client.ask(request, 6).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].offset) == (ErrorCode.NONE, stored.base_offset)
    assert victim.rss_peak_bytes < before + 80 * MEBIBYTE


def _request(topic: str, batch: bytearray) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,))


def _timed(client: Conversation) -> float:
    before = time.monotonic()
    assert produce(client, "honest", one_batch()).error_code is ErrorCode.NONE
    return time.monotonic() - before
