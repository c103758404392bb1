"""The text files beside the logs, byte for byte as Kafka writes them."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import TopicPartition
from tidelog.storage.checkpoints import (
    DamagedCheckpoint,
    EpochStart,
    MetaProperties,
    decode_clean_shutdown,
    decode_epochs,
    decode_meta_properties,
    decode_offsets,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_epochs,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)

OFFSETS = {TopicPartition("b", 1): 7, TopicPartition("a.topic_x-y", 0): 123456789012}
EPOCHS = [EpochStart(0, 0), EpochStart(3, 100), EpochStart(4, 250)]


def test_offsets_are_written_as_kafka_writes_them() -> None:
    assert encode_offsets(OFFSETS) == b"0\n2\na.topic_x-y 0 123456789012\nb 1 7\n"
    assert decode_offsets(encode_offsets(OFFSETS)) == OFFSETS
    assert decode_offsets(encode_offsets({})) == {}


def test_epochs_are_written_as_kafka_writes_them() -> None:
    assert encode_epochs(EPOCHS) == b"0\n3\n0 0\n3 100\n4 250\n"
    assert decode_epochs(encode_epochs(EPOCHS)) == EPOCHS


@pytest.mark.parametrize("length", range(len(encode_epochs(EPOCHS))))
def test_d09_every_torn_checkpoint_is_noticed(length: int) -> None:
    with pytest.raises(DamagedCheckpoint):
        decode_epochs(encode_epochs(EPOCHS)[:length])
    torn = encode_offsets(OFFSETS)[: length + 1]
    with pytest.raises(DamagedCheckpoint):
        decode_offsets(torn)


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n1\n",
        b"0\n0\nx 1 2\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 -5\n",
        b"0\n1\nt x 5\n",
        b"0\nx\n",
        b"\x00" * 20,
        b"\xff\n",
    ],
)
def test_malformed_offset_checkpoint_is_noticed(content: bytes) -> None:
    with pytest.raises(DamagedCheckpoint):
        decode_offsets(content)


def test_epochs_out_of_order_are_noticed() -> None:
    with pytest.raises(DamagedCheckpoint):
        decode_epochs(b"0\n2\n3 0\n2 10\n")


def test_partition_metadata_holds_the_id_in_22_characters() -> None:
    topic_id = UUID("6f3a7d0a-9b1c-4e2f-8a5b-0c1d2e3f4a5b")
    content = encode_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: bzp9CpscTi-KWwwdLj9KWw"
    assert decode_partition_metadata(content) == topic_id
    for damaged in (b"", b"version: 1\ntopic_id: bzp9CpscTi-KWwwdLj9KWw", b"version: 0\ntopic_id: x", content[:-3]):
        with pytest.raises(DamagedCheckpoint):
            decode_partition_metadata(damaged)


def test_meta_properties_of_both_versions_are_read() -> None:
    meta = MetaProperties(broker_id=3, cluster_id="abc")
    assert decode_meta_properties(encode_meta_properties(meta)) == meta
    kafka = b"#\n#Mon Jan 01 00:00:00 UTC 2024\nversion=1\nnode.id=3\ncluster.id=abc\ndirectory.id=xyz\n"
    assert decode_meta_properties(kafka) == MetaProperties(broker_id=3, cluster_id="abc", directory_id="xyz")
    for damaged in (b"", b"version=2\nbroker.id=1\n", b"version=0\nbroker.id=x\n"):
        with pytest.raises(DamagedCheckpoint):
            decode_meta_properties(damaged)


def test_clean_shutdown_marker_carries_the_broker_epoch() -> None:
    assert encode_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":42}') == 42
    assert [decode_clean_shutdown(old) for old in (b"", b"[]", b"{}", b"\xff")] == [-1] * 4


@given(st.binary(max_size=200))
def test_any_bytes_are_a_checkpoint_or_damaged(content: bytes) -> None:
    for decode in (decode_offsets, decode_epochs, decode_partition_metadata, decode_meta_properties):
        try:
            decode(content)
        except DamagedCheckpoint:
            continue
