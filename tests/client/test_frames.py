"""Bytes cut into frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.frames import FrameReader
from tidelog.wire.errors import MalformedMessage


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 30), max_size=30))
def test_frames_come_out_whole_however_the_bytes_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    reader, stream, received = FrameReader(max_bytes=40), framed(*bodies), []
    for size in [*cuts, len(stream)]:
        received += [bytes(frame) for frame in reader.feed(stream[:size])]
        stream = stream[size:]
    assert received == bodies


@pytest.mark.parametrize("size", [41, -1, 2**31 - 1])
def test_a_size_no_broker_may_claim_is_refused_before_its_bytes_arrive(size: int) -> None:
    with pytest.raises(MalformedMessage, match=str(size)):
        FrameReader(max_bytes=40).feed(size.to_bytes(4, "big", signed=True))
