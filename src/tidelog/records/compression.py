"""The four codecs of the record format, with a hard limit on what they may expand to.

Nothing here trusts a length written inside compressed bytes: output goes into buffers that grow step by step up to
`max_bytes`, so a kilobyte that claims to be a gigabyte costs a kilobyte's worth of work. The frames we write are the
ones Java clients can read: xerial blocks for snappy, independent blocks for LZ4 (KIP-57), one frame for zstd.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from tidelog.records.corrupt import CorruptBatch, ExpandsTooFar
from tidelog.runtime.disk import Buffer


class Codec(enum.IntEnum):
    """How the records of a batch are compressed; the numbers are bits 0 to 2 of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a whole payload; `level` is the codec's own scale and snappy has none."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            squeezer = zlib.compressobj(level=-1 if level is None else level, wbits=_GZIP_WINDOW_BITS)
            return squeezer.compress(data) + squeezer.flush()
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Java's reader refuses linked blocks, cramjam's default. Level 9 means the fast compressor, as in KIP-390.
            fast = level is None or level == _LZ4_FAST_LEVEL
            frame = cramjam.lz4.Compressor(level=0 if fast else level, content_checksum=False, block_linked=False)
            frame.compress(bytes(data))
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: Buffer, *, max_bytes: int) -> bytes | bytearray:
    """The payload before compression. Raises CorruptBatch, or ExpandsTooFar once it would exceed `max_bytes`."""
    match codec:
        case Codec.NONE:
            if len(data) > max_bytes:
                raise ExpandsTooFar(f"{len(data)} bytes of records where {max_bytes} are allowed")
            return bytes(data)
        case Codec.GZIP:
            return _decompress_gzip(data, max_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Codec.LZ4:
            return _decompress_growing("lz4", cramjam.lz4.decompress_into, data, max_bytes)
        case Codec.ZSTD:
            # libzstd refuses windows above 128 MiB, and touches of a smaller one only as much as it writes.
            return _decompress_growing("zstd", cramjam.zstd.decompress_into, data, max_bytes)


_GZIP_WINDOW_BITS: Final = 31  # the largest window, plus 16 for a gzip header and trailer
_ZSTD_LEVEL: Final = 3
_LZ4_FAST_LEVEL: Final = 9
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")
_SNAPPY_EXPANSION_MAX: Final = 22  # a snappy copy makes at most 64 bytes out of 3
_GROWTH_START_BYTES: Final = 4096
_GROWTH_FACTOR: Final = 4
_OUTPUT_IS_FULL: Final = "failed to write whole buffer"  # how cramjam says that the output buffer was too small


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    members: list[bytes] = []
    size = 0
    remaining: Buffer = data
    while True:
        inflater = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            member = inflater.decompress(remaining, max_bytes - size + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        size += len(member)
        if size > max_bytes:
            raise ExpandsTooFar(f"gzip: expands to more than {max_bytes} bytes")
        if not inflater.eof:
            raise CorruptBatch("gzip: ends in the middle of a member")
        members.append(member)
        remaining = inflater.unused_data
        if not remaining:
            return members[0] if len(members) == 1 else b"".join(members)


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytearray:
    """Java writes xerial blocks, librdkafka and others one raw block; only the magic tells which."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise CorruptBatch("snappy: ends inside the xerial header")
    output = bytearray()
    while position < len(view):
        if position + 4 > len(view):
            raise CorruptBatch(f"snappy: ends inside the block length at {position}")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += 4
        if not 0 <= length <= len(view) - position:
            raise CorruptBatch(f"snappy: block of {length} bytes at {position} where {len(view) - position} remain")
        output += _decompress_snappy_block(view[position : position + length], max_bytes - len(output))
        position += length
    return output


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytearray:
    if not block:
        raise CorruptBatch("snappy: no bytes, not even a length")
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(str(error)) from None
    if claimed > len(block) * _SNAPPY_EXPANSION_MAX:
        raise CorruptBatch(f"snappy: {len(block)} bytes claim to hold {claimed}")
    if claimed > max_bytes:
        raise ExpandsTooFar(f"snappy: expands to {claimed} bytes where {max_bytes} are allowed")
    output = bytearray(claimed)
    if claimed:
        try:
            cramjam.snappy.decompress_raw_into(block, output)
        except cramjam.DecompressionError as error:
            raise CorruptBatch(str(error)) from None
    return output


def _decompress_growing(
    name: str, decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int
) -> bytearray:
    """Decompress into a small buffer, and anew into a larger one while it overflows."""
    capacity = min(max_bytes, max(_GROWTH_START_BYTES, _GROWTH_FACTOR * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_IS_FULL not in str(error):
                raise CorruptBatch(f"{name}: {error}") from None
        else:
            del output[size:]
            return output
        if capacity == max_bytes:
            raise ExpandsTooFar(f"{name}: expands to more than {max_bytes} bytes")
        capacity = min(max_bytes, capacity * _GROWTH_FACTOR)
