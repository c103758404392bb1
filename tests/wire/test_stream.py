"""Frames from streams, whatever the chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.stream import FrameDecoder, FrameRefused


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(bodies=st.lists(st.binary(max_size=64), max_size=8), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_frames_do_not_depend_on_how_the_stream_was_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream, decoder, frames, turn = framed(*bodies), FrameDecoder(size_max=64), [], 0
    while stream:
        size = cuts[turn % len(cuts)]
        frames += decoder.feed(stream[:size])
        stream, turn = stream[size:], turn + 1
    assert [bytes(frame) for frame in frames] == bodies
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 65, 2**31 - 1, int.from_bytes(b"GET ", "big")])
def test_a_size_out_of_bounds_is_refused_before_anything_is_kept(size: int) -> None:
    decoder = FrameDecoder(size_max=64)
    with pytest.raises(FrameRefused):
        decoder.feed(size.to_bytes(4, "big", signed=size < 0))
    assert decoder.buffered_bytes <= 4


def test_an_announced_frame_holds_only_the_bytes_that_came() -> None:
    decoder = FrameDecoder(size_max=1 << 30)
    assert decoder.feed((1 << 30).to_bytes(4, "big") + b"abc") == []
    assert decoder.buffered_bytes == 3


def test_a_frame_can_be_written_into() -> None:
    (frame,) = FrameDecoder(size_max=64).feed(framed(b"abc"))
    frame[0:1] = b"x"
    assert frame == b"xbc"
