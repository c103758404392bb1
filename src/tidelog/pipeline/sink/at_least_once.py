"""Mode `at-least-once`: tasks write to the topics themselves, at once.

Rows are visible as soon as a task has sent them. An attempt that fails, is repeated or is late leaves what it sent, and so does a
micro-batch that is replayed: rows may be there several times, but none is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.client import ClientError, Cluster, Producer, RecordMetadata
from tidelog.client.bridge import Bridge
from tidelog.model import ErrorCode
from tidelog.pipeline.sink.commit_trouble import explained
from tidelog.pipeline.sink.driver_client import driver_client, forget_driver_client, leaving_soon
from tidelog.pipeline.sink.errors import SinkFailed
from tidelog.pipeline.sink.group_position import position_here
from tidelog.pipeline.sink.kept import Kept
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.prepared import manifest_directory
from tidelog.pipeline.sink.source_offsets import read_source_offsets
from tidelog.pipeline.sink.topics import unless_missing
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.pipeline.codec.encoding import EncodedBatch

T = TypeVar("T")

_KEPT_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class WrittenMessage(WriterCommitMessage):
    """That a task has written all its rows."""

    record_count: int


class AtLeastOnce:
    """Tasks write; the driver only notes how far the query has come."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def task_write(self, rows: Iterator[pa.RecordBatch], task: Task) -> WrittenMessage:
        """Send all rows, and wait until they are acknowledged. Raises SinkFailed."""
        del task
        from tidelog.pipeline.sink.rows import RowEncoder  # the codec is for tasks only

        encoder = RowEncoder(self._settings)
        try:
            return WrittenMessage(self._client().send(encoder.encode(rows)))
        except ClientError as error:
            _clients.forget(_key_of(self._settings))
            raise SinkFailed(explained(error, self._settings)) from error
        except BaseException:
            _clients.forget(_key_of(self._settings))  # with what is still on its way
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Commit the position in the source topics. Raises SinkFailed."""
        del messages
        group, checkpoint = self._settings.offsets_group, self._settings.checkpoint
        if checkpoint is not None and manifest_directory(self._settings).is_dir():
            self._leave_two_phase()
        if group is None or checkpoint is None or micro_batch_id is None:
            return
        source = read_source_offsets(checkpoint, micro_batch_id)
        client = driver_client(self._settings)
        try:
            offsets = position_here(client, source)
            answers = client.run(client.admin.groups.alter_offsets(group, offsets)) if offsets else {}
        except ClientError as error:
            forget_driver_client(self._settings)
            raise SinkFailed(explained(error, self._settings)) from error
        refused = {str(key): code.name for key, code in answers.items() if code is not ErrorCode.NONE}
        if refused:
            raise SinkFailed(
                f"the position of the query cannot be committed for group {group!r}: {refused} (set the option "
                "offsets.group to a group that has no members, or to none)"
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """There is nothing that could be taken back."""

    def _client(self) -> _TaskClient:
        return _clients.of(_key_of(self._settings), lambda: _TaskClient(self._settings))

    def _leave_two_phase(self) -> None:
        """The query was in mode 2pc before. What it left open its readers would wait for, for ever."""
        from tidelog.pipeline.sink.two_phase import leave_two_phase

        try:
            leave_two_phase(self._settings, driver_client(self._settings))
        except ClientError as error:
            forget_driver_client(self._settings)
            raise SinkFailed(explained(error, self._settings)) from error


class _TaskClient:
    """The producer of one worker, kept from task to task."""

    def __init__(self, settings: SinkSettings) -> None:
        self._runtime = real_runtime()
        self._config = settings.producer_config()
        self._bridge = Bridge()
        in_flight_max = self._config.max_in_flight_requests_per_connection
        self._cluster = self._bridge.hold(Cluster(self._config, self._runtime, in_flight_max=in_flight_max))
        self._producer = self._bridge.hold(leaving_soon(Producer(self._cluster, self._config, self._runtime)))

    def send(self, batches: Iterator[tuple[str, EncodedBatch]]) -> int:
        """Send batches while the next ones are encoded, and wait for all; returns how many records they have.

        Raises ClientError, or TopicMissing.
        """
        sent: list[asyncio.Future[RecordMetadata]] = []
        topics: set[str] = set()
        record_count = 0
        for topic, batch in batches:
            topics.add(topic)
            sending = self._producer.send_batch(topic, batch.partition, batch.data, batch.record_count)
            sent.append(self._bridge.run(self._unless_missing(sending, topics)))
            record_count += batch.record_count
        self._bridge.run(self._settled(sent, topics))
        return record_count

    def close(self) -> None:
        with suppress(TimeoutError):
            self._bridge.close()

    def _unless_missing(self, work: Coroutine[Any, Any, T], topics: Collection[str]) -> Coroutine[Any, Any, T]:
        return unless_missing(work, self._cluster, self._config, self._runtime, topics)

    async def _settled(self, sent: list[asyncio.Future[RecordMetadata]], topics: set[str]) -> None:
        await self._unless_missing(self._producer.flush(), topics)
        for each in sent:
            each.result()


_clients: Final[Kept[tuple[tuple[str, str], ...], _TaskClient]] = Kept(_KEPT_MAX)
"""By settings of the producer."""


def _key_of(settings: SinkSettings) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.properties.items()))
