"""Bytes that are not what they claim to be, and a slow, obvious reader that says what should become of them.

`python -m tests.pipeline.codec.hostile SEED ROUNDS` attacks the decoder at random. Run it with NUMBA_BOUNDSCHECK=1 and a NUMBA_CACHE_DIR of
its own, and kernels notice every access outside of an array.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

from crc32c import crc32c

from tests.pipeline.codec.rows import END_OFFSET, Row, decode, row_of
from tests.records.batches import batch_of
from tidelog.client.errors import CorruptRecords
from tidelog.records import HEADER_SIZE, Codec, CorruptBatch, crc_holds, read_header, read_records, stamp
from tidelog.records.batch import BatchHeader, new_header, write_batch
from tidelog.records.varint import encode_varint
from tidelog.simulation.randomness import SimulatedRandomness

EXPANDED_BYTES_MAX = 256 << 20
ODD_NUMBERS = [  # varints that no writer writes: too small, too large, too long, without an end
    b"\x00",
    b"\x01",
    b"\x03",
    b"\x7f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x00",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xfe" + b"\xff" * 8 + b"\x01",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x03",
    b"\xff" * 11,
]
ODD_CLAIMS = {
    "base_offset": [-(1 << 63), -1, 1, 5, END_OFFSET, (1 << 63) - 1],
    "length": [-(1 << 31), -1, 0, 48, 49, 50, (1 << 31) - 1],
    "magic": [-1, 0, 1, 3],
    "attributes": [-(1 << 15), -1, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 48, 64],
    "last_offset_delta": [-(1 << 31), -1, 0, 1, 3, (1 << 31) - 1],
    "base_timestamp": [-(1 << 63), (1 << 63) - 1],
    "max_timestamp": [-(1 << 63), (1 << 63) - 1],
    "record_count": [-(1 << 31), -1, 0, 1, 2, 4, 1_000_000, (1 << 31) - 1],
}
_HEADER = struct.Struct(">qiibIhiqqqhii")


def sound_fetch(codec: Codec = Codec.NONE) -> bytes:
    """Two small batches with all that records can have."""
    first = batch_of(
        [(5, b"k", b"value", (("h", b"x"), ("", None))), (3, None, b"", ()), (7, b"", None, (("é", b""),))], codec=codec
    )
    second = batch_of([(9, b"key", b"v" * 70, ())], codec=codec)
    stamp(second, 0, base_offset=3, leader_epoch=0)
    return bytes(first + second)


def expected(fetched: bytes) -> list[Row] | None:
    """The rows that a reader must get, or None where it must complain."""
    position = next_offset = 0
    rows: list[Row] = []
    while True:
        try:
            header = read_header(fetched, position)
        except CorruptBatch:
            break
        if position + header.size > len(fetched):
            break
        if header.base_offset >= END_OFFSET:
            return rows
        found = _rows_of(fetched, position, header, next_offset)
        if found is None:
            return None
        rows += found
        next_offset = header.next_offset
        position += header.size
    return rows if next_offset else None


def _rows_of(fetched: bytes, position: int, header: BatchHeader, next_offset: int) -> list[Row] | None:
    """The rows of one batch; its offsets must follow those before."""
    is_sane = header.base_offset >= next_offset and header.last_offset_delta >= 0 and header.record_count >= 0
    if not crc_holds(fetched, position, header) or not is_sane:
        return None
    if header.is_control or not header.record_count:
        return []
    try:
        records = read_records(fetched[position : position + header.size], max_bytes=EXPANDED_BYTES_MAX)
    except CorruptBatch:
        return None
    offsets = [header.base_offset - 1, *(record.offset for record in records)]
    if offsets != sorted(set(offsets)) or offsets[-1] > header.last_offset:
        return None
    return [row_of(*record, header.timestamp_type) for record in records]


def judged(fetched: bytes) -> None:
    """Let the decoder read bytes, and see that it does what it should."""
    should = expected(fetched)
    try:
        did: list[Row] | None = decode(fetched)
    except CorruptRecords:
        did = None
    assert did == should, f"{fetched!r} became {did} instead of {should}"


def repaired(fetched: bytes) -> bytes:
    """The same with checksums that hold, as far as there are batches."""
    mended = bytearray(fetched)
    position = 0
    while position + HEADER_SIZE <= len(mended):
        size = 12 + int.from_bytes(mended[position + 8 : position + 12], "big", signed=True)
        if size < HEADER_SIZE or position + size > len(mended):
            break
        struct.pack_into(">I", mended, position + 17, crc32c(mended[position + 21 : position + size]))
        position += size
    return bytes(mended)


def with_other_records(fetched: bytes, start: int, end: int, replacement: bytes) -> bytes:
    """The first batch with a part of its records replaced, its length and checksum mended, and the batches after it."""
    header = read_header(fetched)
    batch = fetched[:start] + replacement + fetched[end : header.size]
    claimed = batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:]
    return repaired(claimed + fetched[header.size :])


def odd_numbers_everywhere(fetched: bytes) -> Iterator[bytes]:
    """Every byte of the first batch's records made an odd number, in its place or before it."""
    for start in range(HEADER_SIZE, read_header(fetched).size):
        for number in ODD_NUMBERS:
            yield with_other_records(fetched, start, start + 1, number)
            yield with_other_records(fetched, start, start, number)


def odd_records() -> Iterator[bytes]:
    """A record of every shape with an odd number for each of its numbers in turn, and a length that fits what it became."""
    for tail in ((b"\x00",), (b"\x04", b"\x02", b"h", b"\x02", b"x", b"\x00", b"", b"\x01", b"")):
        for key in ((b"\x01", b""), (b"\x06", b"key")):
            parts = [b"\x00", b"\x04", b"\x00", *key, b"\x0a", b"value", *tail]
            for index in range(1, len(parts)):
                for number in ODD_NUMBERS:
                    body = b"".join([*parts[:index], number, *parts[index + 1 :]])
                    yield with_records(encode_varint(len(body)) + body)
                    yield with_records(encode_varint(len(body) + 1) + body)


def with_records(payload: bytes) -> bytes:
    """A batch that claims one record."""
    header = new_header(attributes=0, last_offset_delta=0, base_timestamp=5, max_timestamp=5, record_count=1)
    return bytes(write_batch(header, payload))


def odd_claims(fetched: bytes) -> Iterator[bytes]:
    """Every field of the first batch's header with values that mean harm."""
    header = read_header(fetched)
    for name, values in ODD_CLAIMS.items():
        for value in values:
            yield repaired(_HEADER.pack(*header._replace(**{name: value})) + fetched[HEADER_SIZE:])


def flipped(fetched: bytes, patterns: tuple[int, ...]) -> Iterator[bytes]:
    """Every byte changed, with checksums that hold."""
    for position in range(len(fetched)):
        for pattern in patterns:
            changed = bytearray(fetched)
            changed[position] ^= pattern
            yield repaired(bytes(changed))


def mutated(fetched: bytes, chance: SimulatedRandomness) -> bytes:
    """Bytes changed, cut out, doubled and moved, a few times over."""
    data = bytearray(fetched)
    for _ in range(1 + chance.below(4)):
        start = chance.below(len(data) + 1)
        end = min(len(data), start + chance.below(12))
        match chance.below(5):
            case 0:
                data[start:end] = chance.bytes(end - start)
            case 1:
                data[start:end] = ODD_NUMBERS[chance.below(len(ODD_NUMBERS))]
            case 2:
                del data[start:end]
            case 3:
                data[start:start] = data[end : end + chance.below(100)]
            case _:
                data[start:start] = chance.bytes(chance.below(6))
    if chance.below(4) and len(data) >= HEADER_SIZE:  # mostly, let the first batch be as long as all there is
        struct.pack_into(">i", data, 8, len(data) - 12)
    return repaired(bytes(data))


def main() -> None:
    """Attack until the rounds are over; whatever goes wrong ends the process."""
    seed, rounds = int(sys.argv[1]), int(sys.argv[2])
    whole = sound_fetch()
    for attack in (odd_numbers_everywhere, odd_claims, lambda fetched: flipped(fetched, (0x01, 0x80, 0xFF))):
        for fetched in attack(whole):
            judged(fetched)
            judged(repaired(fetched[: read_header(whole).size]))  # with the end of the bytes right behind the records
    for fetched in odd_records():
        judged(fetched)
    chance = SimulatedRandomness(seed)
    for round_ in range(rounds):
        codec = Codec(chance.below(len(Codec))) if chance.below(2) else Codec.NONE
        fetched = mutated(sound_fetch(codec), chance.stream(str(round_)))
        judged(fetched)


if __name__ == "__main__":
    main()
