"""From a consumer to stdout, a poll at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.cli.progress import Progress
from tidelog.cli.shown_record import ShownRecord
from tidelog.client import ConsumedRecord, Consumer
from tidelog.model import Offset, TopicPartition

POLL_RECORDS_MAX: Final = 1000
POLL_TIMEOUT_MS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing:
    """How records are printed, how many, and who is told."""

    show: Callable[[ShownRecord], bytes]
    progress: Progress
    count_max: int | None

    @property
    def is_done(self) -> bool:
        """Whether as many as were wanted have been printed."""
        return self.progress.record_count == self.count_max

    async def print_some(self, consumer: Consumer, before: Mapping[TopicPartition, Offset] | None = None) -> None:
        """Print what comes next, if anything comes soon; of partitions with an end only what is before it.

        What nobody took (a full disk, a reader that went away) is put back: it was not read, and shall not be committed.
        """
        count = self.progress.record_count
        left = POLL_RECORDS_MAX if self.count_max is None else min(POLL_RECORDS_MAX, self.count_max - count)
        records = await consumer.poll(max_records=left, timeout_ms=POLL_TIMEOUT_MS)
        wanted = [each for each in records if before is None or each.offset < before[each.topic_partition]]
        try:
            _print(b"".join([self.show(_shown(record)) for record in wanted]))
        except Exception:
            for topic_partition, offset in {each.topic_partition: each.offset for each in reversed(records)}.items():
                consumer.seek(topic_partition, offset)
            raise
        self.progress.add(len(wanted), sum(_size(record) for record in wanted))


def _print(data: bytes) -> None:
    """All of it: with PYTHONUNBUFFERED, which images for containers like to set, a write may take a part and be content."""
    left = memoryview(data)
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def _size(record: ConsumedRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _shown(record: ConsumedRecord) -> ShownRecord:
    topic, partition = record.topic_partition
    return ShownRecord(topic, partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers)
