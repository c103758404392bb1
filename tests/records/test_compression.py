"""Codecs: round trips, the frames of other clients, bombs."""

from __future__ import annotations

import contextlib
import gzip
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from tidelog.records import Codec, CorruptBatch, ExpandsTooFar, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog; " * 3000

payloads = st.binary(max_size=2000) | st.tuples(st.binary(min_size=1, max_size=40), st.integers(0, 5000)).map(
    lambda pair: pair[0] * pair[1]
)


@given(payloads, st.sampled_from(Codec))
def test_what_is_compressed_comes_back(payload: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, payload), max_bytes=len(payload)) == payload


@pytest.mark.parametrize("codec", Codec)
def test_views_are_taken_as_well_as_bytes(codec: Codec) -> None:
    view = memoryview(b"__" + compress(codec, memoryview(bytearray(TEXT))))[2:]
    assert decompress(codec, view, max_bytes=len(TEXT)) == TEXT


@pytest.mark.parametrize(("codec", "high"), [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19)])
def test_higher_levels_compress_better(codec: Codec, high: int) -> None:
    text = b"".join(b"%d:%x;" % (number * number, number * 7919) for number in range(5_000))
    assert len(compress(codec, text, high)) < len(compress(codec, text, 1))


def test_other_clients_read_our_frames() -> None:
    assert aiokafka_codec.gzip_decode(compress(Codec.GZIP, TEXT)) == TEXT
    assert aiokafka_codec.snappy_decode(compress(Codec.SNAPPY, TEXT)) == TEXT
    assert aiokafka_codec.lz4_decode(compress(Codec.LZ4, TEXT)) == TEXT
    assert aiokafka_codec.zstd_decode(compress(Codec.ZSTD, TEXT)) == TEXT


def test_lz4_blocks_are_independent_because_java_reads_no_others() -> None:
    frame = compress(Codec.LZ4, TEXT)
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0b0010_0000


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    frame = compress(Codec.SNAPPY, TEXT)
    assert frame[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, sizes = 16, []
    while position < len(frame):
        (length,) = struct.unpack_from(">i", frame, position)
        sizes.append(cramjam.snappy.decompress_raw_len(frame[position + 4 : position + 4 + length]))
        position += 4 + length
    assert sizes[:-1] == [32_768] * (len(TEXT) // 32_768)
    assert sum(sizes) == len(TEXT)


def test_raw_snappy_of_librdkafka_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), max_bytes=len(TEXT)) == TEXT


def test_several_gzip_members_are_one_payload() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"ab") + gzip.compress(b"cd"), max_bytes=4) == b"abcd"


def test_several_zstd_and_lz4_frames_are_one_payload() -> None:
    for codec in (Codec.ZSTD, Codec.LZ4):
        assert decompress(codec, compress(codec, b"ab") + compress(codec, b"cd"), max_bytes=4) == b"abcd"


def test_lz4_frame_with_linked_blocks_and_checksums_is_read() -> None:
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)), max_bytes=len(TEXT)) == TEXT


def test_zstd_stream_without_content_size_is_read() -> None:
    stream = cramjam.zstd.Compressor()
    stream.compress(TEXT)
    assert decompress(Codec.ZSTD, bytes(stream.finish()), max_bytes=len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_one_byte_over_the_limit_is_too_far(codec: Codec) -> None:
    with pytest.raises(ExpandsTooFar):
        decompress(codec, compress(codec, TEXT), max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bomb_costs_no_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(32 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ExpandsTooFar):
            decompress(codec, bomb, max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_zstd_window_of_two_gib_is_refused() -> None:
    window_descriptor = bytes([0, (31 - 10) << 3])
    run_of_a = struct.pack("<I", 1 | 1 << 1 | 131_072 << 3)[:3] + b"a"
    with pytest.raises(CorruptBatch, match="memory"):
        decompress(Codec.ZSTD, bytes.fromhex("28b52ffd") + window_descriptor + run_of_a, max_bytes=1 << 20)


def test_snappy_length_is_checked_before_anything_is_allocated() -> None:
    for frame in (b"\xff\xff\xff\xff\x0f" + b"abc", b"\x80\x80\x80\x01" + bytes(100)):
        with pytest.raises(CorruptBatch, match="claim"):
            decompress(Codec.SNAPPY, frame, max_bytes=1 << 40)


@pytest.mark.parametrize("length", [-1, -(1 << 31), (1 << 31) - 1, 6])
def test_xerial_block_that_leaves_the_payload_is_corrupt(length: int) -> None:
    frame = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, length) + b"12345"
    with pytest.raises(CorruptBatch, match="block of"):
        decompress(Codec.SNAPPY, frame, max_bytes=1 << 20)


@pytest.mark.parametrize("size", range(8, 20))
def test_cut_xerial_header_or_length_is_corrupt(size: int) -> None:
    frame = compress(Codec.SNAPPY, TEXT)[:size]
    if size == 16:
        assert decompress(Codec.SNAPPY, frame, max_bytes=10) == b""
    else:
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, frame, max_bytes=1 << 20)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_cut_frame_is_corrupt(codec: Codec) -> None:
    frame = compress(codec, TEXT)
    for end in (len(frame) - 1, len(frame) // 2, 5, 0):
        with pytest.raises(CorruptBatch):
            decompress(codec, frame[:end], max_bytes=1 << 20)


def test_garbage_after_a_gzip_member_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, gzip.compress(b"ab") + b"zz", max_bytes=10)


def test_zlib_stream_is_no_gzip() -> None:
    with pytest.raises(CorruptBatch, match="gzip"):
        decompress(Codec.GZIP, zlib.compress(b"ab"), max_bytes=10)


@given(st.binary(max_size=200), st.sampled_from(COMPRESSING), st.booleans())
def test_random_bytes_raise_nothing_but_corrupt_batch(data: bytes, codec: Codec, is_disguised: bool) -> None:
    frame = compress(codec, b"abc")[: 4 + len(data) % 8] + data if is_disguised else data
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, frame, max_bytes=4096)) <= 4096
