"""What a task does: fetch its ranges, decode them, hand out Arrow batches. Runs in the executors' Python workers.

A worker serves one task after the other, so its client stays open between them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from tidelog.model import IsolationLevel
from tidelog.pipeline.source.contact import Contact
from tidelog.pipeline.source.errors import ReadStuck
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.planning import Range, TaskRanges
from tidelog.pipeline.source.raw_reader import Chunk, RawReader

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.pipeline.codec.decoding import Decoder

_SMALL_BYTES: Final = 256 << 10
_MERGED_BYTES: Final = 1 << 20


def read_task(task: TaskRanges, columns: tuple[str, ...], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a task, read with the client of this worker. Raises SourceFailed, or CorruptRecords."""
    yield from merged(read_ranges(_shared_contact(options), task, columns, options))


def read_ranges(
    contact: Contact, task: TaskRanges, columns: tuple[str, ...], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The records of a task's ranges, those of one range in order. Raises SourceFailed, or CorruptRecords."""
    from tidelog.pipeline.codec.decoding import Decoder, Wanted  # with it comes Arrow, which planners do without

    skips_aborted = options.client.isolation_level is IsolationLevel.READ_COMMITTED
    decoders = [
        Decoder(
            Wanted(
                columns=columns,
                topic=each.topic_partition.topic,
                partition=each.topic_partition.index,
                from_offset=each.start,
                to_offset=each.end,
                skips_aborted=skips_aborted,
            )
        )
        for each in task.ranges
    ]
    with Download(contact, options, task) as download:
        for chunk in download:
            yield from _decoded(decoders[chunk.at], chunk, task.ranges[chunk.at])


def _decoded(decoder: Decoder, chunk: Chunk, whole: Range) -> Iterator[pa.RecordBatch]:
    """All records of a chunk; a chunk that expands to much takes several turns."""
    decoder.next_offset = max(decoder.next_offset, chunk.fetch_offset)
    while decoder.next_offset < min(chunk.next_offset, whole.end):
        before = decoder.next_offset
        yield from decoder.decode(chunk.data, chunk.aborted).batches
        if decoder.next_offset <= before:
            raise ReadStuck(whole.topic_partition, f"what was fetched at offset {before} could not be decoded")


def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in fewer batches where they are small: each costs Spark the same, however few rows it has."""
    import pyarrow as pa

    small: list[pa.RecordBatch] = []
    small_bytes = 0
    for batch in batches:
        if batch.nbytes < _SMALL_BYTES:
            small.append(batch)
            small_bytes += batch.nbytes
            if small_bytes < _MERGED_BYTES:
                continue
        if small:
            yield pa.concat_batches(small)
            small, small_bytes = [], 0
        if batch.nbytes >= _SMALL_BYTES:
            yield batch
    if small:
        yield pa.concat_batches(small)


class Download:
    """The chunks of a task, fetched in the background while earlier ones are decoded. Leaving the block stops it."""

    def __init__(self, contact: Contact, options: SourceOptions, task: TaskRanges) -> None:
        self._contact = contact
        self.reader, self._fetching = contact.run(_begin(contact, options, task))

    def __enter__(self) -> Self:
        return self

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._next, None)

    def __exit__(self, *_exc: object) -> None:
        self._contact.run(_end(self._fetching))

    def _next(self) -> Chunk | None:
        chunk = self._contact.run(self.reader.next_chunk())
        if chunk is None:
            self._contact.run(_outcome(self._fetching))
        return chunk


async def _begin(contact: Contact, options: SourceOptions, task: TaskRanges) -> tuple[RawReader, asyncio.Task[None]]:
    reader = RawReader(contact.cluster, options, contact.runtime, task.ranges)
    return reader, asyncio.create_task(reader.run(), name="tidelog source task")


async def _outcome(fetching: asyncio.Task[None]) -> None:
    """Raise what ended the fetching, if it failed: the first failure stands for those that followed."""
    try:
        await fetching
    except BaseExceptionGroup as group:
        raise _first(group) from group


async def _end(fetching: asyncio.Task[None]) -> None:
    fetching.cancel()
    with suppress(asyncio.CancelledError, BaseExceptionGroup):
        await fetching


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    failure = group.exceptions[0]
    return _first(failure) if isinstance(failure, BaseExceptionGroup) else failure


_contacts: Final[dict[int, tuple[object, Contact]]] = {}  # by process: a fork must not use its parent's


def _shared_contact(options: SourceOptions) -> Contact:
    """This worker's client for these brokers; one is kept, the one that was used last."""
    process = os.getpid()
    known = _contacts.get(process)
    if known is not None and known[0] == options.client:
        return known[1]
    if known is not None:
        del _contacts[process]
        known[1].close()
    contact = Contact(options.client)
    _contacts[process] = (options.client, contact)
    return contact
