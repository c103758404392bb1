"""From staged files to a producer: while some batches are on their way, the next ones are read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from tidelog.client import Producer
from tidelog.pipeline.sink.staging import Frame, StagedFile, read_staged


async def send_staged(producer: Producer, files: Sequence[StagedFile]) -> None:
    """Hand all batches to the producer, file after file, as fast as it has room for them. It sends several requests at a time.

    When this returns some may still be on their way: the end of the transaction waits for them. Raises StagingFailed, or what
    `Producer.send_batch` does; where a batch has failed, at once.
    """
    frames = _frames_of(files)
    reading = asyncio.ensure_future(asyncio.to_thread(_next, frames))
    try:
        while some := await reading:
            reading = asyncio.ensure_future(asyncio.to_thread(_next, frames))
            for frame in some:
                topic, partition = frame.topic_partition
                await producer.send_batch(topic, partition, frame.data, frame.record_count)
    finally:
        # A thread cannot be stopped, and must not read on when its file is deleted.
        await asyncio.wait({reading})
        if not reading.cancelled():
            reading.exception()


def _frames_of(files: Sequence[StagedFile]) -> Iterator[list[Frame]]:
    for file in files:
        yield from read_staged(file)


def _next(frames: Iterator[list[Frame]]) -> list[Frame]:
    return next(frames, [])
