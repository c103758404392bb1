"""Decodes damaged frames; run as a program, because what it looks for may kill the process.

`python -m tests.wire.fuzzer SEED ROUNDS` damages ROUNDS valid frames of every version of every API in both directions
and decodes them as a broker or a client would. Nothing but MalformedMessage may come of it; what still decodes must
encode and decode to the same message again. A failure prints what is needed to repeat it and exits with 1.
"""

from __future__ import annotations

import dataclasses
import enum
import resource
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.wire.oracle import Case, all_cases, innermost, is_nullable
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare
from tidelog.wire.errors import MalformedMessage, UnencodableMessage
from tidelog.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

MEMORY_TO_SPARE = 128 << 20
FRAMES_PER_CASE = 8
NATIVE_READER_KILLER = bytes.fromhex("0003 000c 00000001 ffff 00 ffffffff0f")  # what aborts kio: Metadata v12

COUNTS_THAT_LIE = [
    bytes.fromhex(lie)
    for lie in (
        "ffffffff0f",
        "ffffffffffff",
        "8080808080",
        "ffffff7f",
        "7fffffff",
        "80000000",
        "ffffffff",
        "7fff",
        "8000",
    )
]
BYTES_THAT_MATTER = [0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF]


def main() -> int:
    seed, rounds = int(sys.argv[1]), int(sys.argv[2])
    prepare()
    limit_memory(MEMORY_TO_SPARE)
    attempt(Case(ApiKey.METADATA, 12, is_request=True), NATIVE_READER_KILLER)
    accepted = total = 0
    for case in all_cases():
        chance = SimulatedRandomness(f"{seed}/{case}")
        frames = [valid_frame(case, chance) for _ in range(FRAMES_PER_CASE)]
        for frame in frames:
            if attempt(case, frame) is None:
                return failed(case, frame, "a valid frame is refused")
        for _ in range(rounds):
            frame = damaged(frames[chance.below(len(frames))], chance)
            try:
                accepted += attempt(case, frame) is not None
            except BaseException as error:  # noqa: BLE001 - any other exception is the finding
                return failed(case, frame, repr(error))
            total += 1
    sys.stdout.write(f"{total} damaged frames, {accepted} still decoded\n")
    return 0


def failed(case: Case, frame: bytes, finding: str) -> int:
    sys.stdout.write(f"{case}: {finding}\nframe: {frame.hex()}\n")
    return 1


def limit_memory(spare: int) -> None:
    """Let the process grow by `spare` bytes, so that a count which is believed ends as a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + spare
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def attempt(case: Case, frame: bytes) -> object:
    """Decode a frame as its receiver would: the message, or None if it is malformed."""
    try:
        case, body = opened(case, frame)
        message = case.decode(bytearray(body))
    except MalformedMessage:
        return None
    encoded = b"".join(case.encode(message))
    again = case.decode(encoded)
    if again != message:
        raise AssertionError(f"{message} came back as {again}")
    return message


def opened(case: Case, frame: bytes) -> tuple[Case, bytes]:
    """What a frame claims to be, and its body. A client knows what it asked; a broker must believe the header."""
    if not case.is_request:
        _, position = decode_response_header(case.key, case.version, frame)
        return case, frame[position:]
    header, position = decode_request_header(frame)
    return Case(header.api_key, header.api_version, is_request=True), frame[position:]


def valid_frame(case: Case, chance: SimulatedRandomness) -> bytes:
    if case.is_request:
        start = bytes(encode_request_header(RequestHeader(case.key, case.version, 7, "fuzzer")))
    else:
        start = encode_response_header(case.key, case.version, 7)
    for _ in range(1000):
        try:
            return start + b"".join(case.encode(filled(case.our_type, chance)))
        except UnencodableMessage:  # a null or a field that this version does not have
            continue
    raise AssertionError(f"no example of {case} could be made")


def filled(our_type: type[Any], chance: SimulatedRandomness) -> Any:
    """An instance with small values; fields that have a default keep it half of the time."""
    hints = typing.get_type_hints(our_type)
    return our_type(
        **{
            field.name: value_of(hints[field.name], chance)
            for field in dataclasses.fields(our_type)
            if field.default is dataclasses.MISSING or chance.below(2)
        }
    )


def value_of(hint: Any, chance: SimulatedRandomness) -> Any:
    if is_nullable(hint):
        hint = typing.get_args(hint)[0]
        if chance.below(8) == 0:
            return None
    if typing.get_origin(hint) is tuple:
        return tuple(value_of(innermost(hint), chance) for _ in range(chance.below(4)))
    if dataclasses.is_dataclass(hint):
        return filled(typing.cast("type[Any]", hint), chance)
    if issubclass(hint, enum.Enum):
        members = list(hint)
        return members[chance.below(len(members))]
    return SAMPLES[hint](chance)


SAMPLES: dict[type, Callable[[SimulatedRandomness], object]] = {
    bool: lambda chance: chance.below(2) == 1,
    int: lambda chance: chance.below(100),
    str: lambda chance: "orders-é"[: chance.below(9)],
    bytes: lambda chance: chance.bytes(chance.below(300)),
    UUID: lambda chance: chance.uuid(),
}


def damaged(frame: bytes, chance: SimulatedRandomness) -> bytes:
    for _ in range(1 + chance.below(4)):
        damage = DAMAGES[chance.below(len(DAMAGES))]
        frame = damage(frame, chance)
    return frame


def flip_bit(frame: bytes, chance: SimulatedRandomness) -> bytes:
    at = chance.below(len(frame) + 1)
    return frame[:at] + bytes(byte ^ (1 << chance.below(8)) for byte in frame[at : at + 1]) + frame[at + 1 :]


def set_byte(frame: bytes, chance: SimulatedRandomness) -> bytes:
    at = chance.below(len(frame) + 1)
    return frame[:at] + bytes([BYTES_THAT_MATTER[chance.below(len(BYTES_THAT_MATTER))]]) + frame[at + 1 :]


def overwrite_with_lie(frame: bytes, chance: SimulatedRandomness) -> bytes:
    at, lie = chance.below(len(frame) + 1), COUNTS_THAT_LIE[chance.below(len(COUNTS_THAT_LIE))]
    return frame[:at] + lie + frame[at + len(lie) :]


def insert(frame: bytes, chance: SimulatedRandomness) -> bytes:
    at = chance.below(len(frame) + 1)
    return frame[:at] + chance.bytes(1 + chance.below(8)) + frame[at:]


def delete(frame: bytes, chance: SimulatedRandomness) -> bytes:
    at = chance.below(len(frame) + 1)
    return frame[:at] + frame[at + 1 + chance.below(8) :]


def repeat(frame: bytes, chance: SimulatedRandomness) -> bytes:
    at = chance.below(len(frame) + 1)
    return frame[:at] + frame[at : at + 40] * (1 + chance.below(3)) + frame[at:]


def cut(frame: bytes, chance: SimulatedRandomness) -> bytes:
    return frame[: chance.below(len(frame) + 1)]


DAMAGES = (flip_bit, flip_bit, set_byte, set_byte, overwrite_with_lie, insert, delete, repeat, cut)

if __name__ == "__main__":
    sys.exit(main())
