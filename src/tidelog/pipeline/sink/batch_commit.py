"""Mode `batch`: tasks stage what they encode, and the driver writes a micro-batch in one transaction of its own.

The transaction carries all rows of the micro-batch, its marker, and the source offsets of a consumer group, so that all of it becomes
visible together, and once. Tasks never write to a topic, so it does not matter how many attempts there were or how long a late one lives.
Nothing but public requests of Kafka is used, in the versions that the brokers offer.

1. InitProducerId under the sink id fences whoever wrote there before, and ends what it left open.
2. The marker is read after that, because until then an old driver's commit may be under way. Whether the micro-batch is decided is then
   known, and nobody else can decide it.
3. A replay of a decided micro-batch writes nothing.

A process that goes on writing under the same producer needs neither step again: had anybody else come between, its producer were fenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.client import (
    ClientError,
    Producer,
    ProducerFenced,
    TransactionPending,
    TransactionRefused,
    WrongUse,
)
from tidelog.pipeline.sink.attempts import Attempts
from tidelog.pipeline.sink.commit_trouble import group_is_taken, took_too_long
from tidelog.pipeline.sink.driver_client import DriverClient, driver_client, forget_driver_client
from tidelog.pipeline.sink.errors import CheckpointChanged, RowsGone, SinkFailed, StagingFailed
from tidelog.pipeline.sink.group_position import position_here
from tidelog.pipeline.sink.ledger import Marker, as_nobody, marker_group, marker_offsets
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.prepared import manifest_directory
from tidelog.pipeline.sink.sending import send_staged
from tidelog.pipeline.sink.source_offsets import SourceOffsets, read_source_offsets
from tidelog.pipeline.sink.staging import (
    StagedFile,
    StagingWriter,
    delete_decided,
    delete_job,
    delete_old_jobs,
    delete_staged,
)
from tidelog.pipeline.source.errors import BrokersSilent
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StagedMessage(WriterCommitMessage):
    """What the driver is told by a task."""

    task: Task
    file: StagedFile | None  # None where there was no row


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """All that is to be committed together. A batch job has no marker, and no position in a source."""

    files: tuple[StagedFile, ...]
    marker: Marker | None = None
    source: SourceOffsets | None = None

    @property
    def topics(self) -> set[str]:
        """Which topics get rows."""
        return {topic for file in self.files for topic in file.topics}


class BatchCommit:
    """The steps of a commit are methods of their own, in the order in which `commit` takes them: each begins when the last has returned."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def task_write(self, rows: Iterator[pa.RecordBatch], task: Task) -> WriterCommitMessage:
        """Stage all rows in one file. Raises BadRows, TopicMissing, StagingFailed, or BrokersSilent."""
        from tidelog.pipeline.sink.rows import RowEncoder  # the codec is for tasks only

        writer = StagingWriter(self._settings.staging, task)
        try:
            for topic, batch in RowEncoder(self._settings).encode(rows):
                writer.append(topic, batch.partition, batch.record_count, batch.data)
            return StagedMessage(task, writer.finish())
        except BaseException:
            writer.discard()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Make everything staged visible, once. Raises SinkFailed, or BrokersSilent where nobody answers."""
        work = self._work(messages, micro_batch_id)
        attempts = Attempts(self._settings, real_runtime())
        while not self._has_committed(work, attempts):
            pass
        self.clean_up(work)

    def abort(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Delete what was staged, which nobody reads again. What is decided stays decided: no transaction is touched."""
        delete_staged(_files_in(messages))
        if micro_batch_id is None:
            delete_job(self._settings.staging)

    def take_over(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        """Become the only writer under the sink id, unless this process is. An earlier attempt's id is taken again only if it is still ours."""
        if client.producer is not None:
            return
        since = attempts.found_before
        if since is not None and work.marker is not None:
            attempts.check_still_ours(client.read_markers(), work.marker.run_id, since=since)
        client.take_over()
        client.found = None

    def settle(self, client: DriverClient) -> None:
        """End what is left from when the query was in mode 2pc, if it was: its readers would wait for that for ever."""
        if self._settings.checkpoint is not None and manifest_directory(self._settings).is_dir():
            from tidelog.pipeline.sink.two_phase import leave_two_phase

            leave_two_phase(self._settings, client)

    def is_decided(self, client: DriverClient, work: Work) -> bool:
        """Whether the micro-batch was committed before. Raises CheckpointChanged where that was under another checkpoint of the same query."""
        if work.marker is None:
            return False
        found = client.read_markers() if client.found is None else client.found
        last = found.last_of(work.marker.query_id)
        if last is None or last.micro_batch_id < work.marker.micro_batch_id:
            return False
        if last.micro_batch_id > work.marker.micro_batch_id:
            raise CheckpointChanged(
                f"micro-batch {work.marker.micro_batch_id} is to be written, and {last.micro_batch_id} was written already "
                f"(by run {last.run_id}): another driver uses this checkpoint, or it was put back to an older state"
            )
        if last.source_digest != work.marker.source_digest:
            raise CheckpointChanged(
                f"micro-batch {last.micro_batch_id} was written before, when it ended at other source offsets than the "
                "checkpoint says now: the checkpoint was changed by hand; put it back, or begin with a new one"
            )
        return True

    def begin(self, client: DriverClient) -> None:
        """Begin the transaction; brokers hear of it with the first batch."""
        client.run(_begin(_producer_of(client)))
        client.on_begun()

    def send_output(self, client: DriverClient, work: Work) -> None:
        """Send all that is staged; some may still be on its way when this returns. Raises StagingFailed where that cannot be read.

        From here on, until it is decided, TopicMissing is raised where a topic was deleted since tasks looked.
        """
        client.write(send_staged(_producer_of(client), work.files), work.topics)

    def send_marker(self, client: DriverClient, work: Work) -> None:
        """Make the marker part of the transaction."""
        if work.marker is not None:
            offsets = marker_offsets(work.marker, self._marked_topics(client, work))
            group = as_nobody(marker_group(self._settings.sink_id))
            client.write(_producer_of(client).send_offsets_to_transaction(offsets, group), work.topics)

    def send_source_offsets(self, client: DriverClient, work: Work) -> None:
        """Make the position in the source topics part of the transaction, as far as these topics are of this cluster. Raises SinkFailed."""
        if work.source is None or self._settings.offsets_group is None:
            return
        offsets = position_here(client, work.source)
        if not offsets:
            return
        # Brokers take a transaction's offsets in nobody's name also where members commit theirs, and these would be moved under their feet.
        if client.has_members(self._settings.offsets_group):
            raise SinkFailed(f"sink {self._settings.sink_id!r} could not commit: {group_is_taken(self._settings)}")
        group = as_nobody(self._settings.offsets_group)
        client.write(_producer_of(client).send_offsets_to_transaction(offsets, group), work.topics)

    def decide(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        """Commit the transaction, once all its batches are acknowledged. While nobody answers what became of it, ask again."""
        producer = _producer_of(client)
        try:
            client.write(producer.flush(), work.topics)
            while not client.run(_is_committed(producer, is_last=attempts.is_over)):
                pass
        except (TransactionPending, ProducerFenced, TransactionRefused) as error:
            if work.marker is None:
                late = f" ({advice})" if (advice := took_too_long(self._settings, client.open_ms)) else ""
                raise SinkFailed(
                    f"whether the rows of this job were written is not known, since the brokers do not say: {error}{late}. "
                    "Look into the topics before the job is run again"
                ) from error
            raise
        client.on_decided()
        if work.marker is not None and client.found is not None:
            client.found = client.found.with_marker(work.marker, self._marked_topics(client, work))

    def clean_up(self, work: Work) -> None:
        """Delete what was staged for what is decided now, by whomever."""
        if work.marker is None:
            delete_job(self._settings.staging)
            delete_old_jobs(self._settings.staging.parent, real_runtime().clock.wall_ms())
        else:
            delete_decided(self._settings.staging, work.marker.micro_batch_id)

    def _has_committed(self, work: Work, attempts: Attempts) -> bool:
        """One attempt; returns whether it went well. Raises what makes another one pointless."""
        try:
            client = driver_client(self._settings, run_id=None if work.marker is None else work.marker.run_id)
        except BrokersSilent as error:
            attempts.on_silence(error)
            return False
        try:
            self._commit_once(client, work, attempts)
        except ClientError as error:
            forget_driver_client(self._settings)
            self._on_failure(error, client, attempts)
            return False
        except (StagingFailed, RowsGone):
            try:
                self._check_for_successor(client, work, attempts)
            finally:
                forget_driver_client(self._settings)
            raise
        except BaseException:
            forget_driver_client(self._settings)
            raise
        return True

    def _commit_once(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        """What every mode that decides once begins with; what it does then is its own."""
        self.take_over(client, work, attempts)
        self.settle(client)
        if not self.is_decided(client, work):
            self._write_and_decide(client, work, attempts)

    def _write_and_decide(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        """Commit what is not committed yet."""
        self.begin(client)
        self.send_output(client, work)
        self.send_marker(client, work)
        self.send_source_offsets(client, work)
        self.decide(client, work, attempts)

    def _on_failure(self, error: ClientError, client: DriverClient, attempts: Attempts) -> None:
        """Returns where another attempt may be made. Raises SinkFailed where not."""
        attempts.on_failure(error, client.found, open_ms=client.open_ms)

    def _check_for_successor(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        """Who takes over clears away what was written for what it decides: then it is to blame, and nothing else."""
        if client.found is not None and work.marker is not None:
            since = client.found
            with suppress(ClientError):
                attempts.check_still_ours(client.read_markers(), work.marker.run_id, since=since)

    def _work(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> Work:
        files = _files_in(messages)
        checkpoint = self._settings.checkpoint
        if checkpoint is None or micro_batch_id is None:
            return Work(files=files)
        task = next((message.task for message in messages if isinstance(message, StagedMessage)), None)
        if task is None or task.query_id is None or task.run_id is None:
            raise SinkFailed(f"no task of micro-batch {micro_batch_id} has told which query it belongs to")
        source = read_source_offsets(checkpoint, micro_batch_id)
        marker = Marker(
            query_id=task.query_id, run_id=task.run_id, micro_batch_id=micro_batch_id, source_digest=source.digest
        )
        return Work(files=files, marker=marker, source=source)

    def _marked_topics(self, client: DriverClient, work: Work) -> list[str]:
        """Where the marker is put: at the topics of the micro-batch, or if it has no rows where rows of the query went before."""
        if work.topics or work.marker is None or client.found is None:
            return sorted(work.topics)
        last = client.found.last_of(work.marker.query_id)
        topics = client.found.topics_of(last) if last is not None else []
        counts = client.partition_counts({*topics, *([self._settings.topic] if self._settings.topic else [])})
        return sorted(topic for topic, count in counts.items() if count)


def _files_in(messages: Sequence[WriterCommitMessage | None]) -> tuple[StagedFile, ...]:
    return tuple(
        message.file for message in messages if isinstance(message, StagedMessage) and message.file is not None
    )


def _producer_of(client: DriverClient) -> Producer:
    if client.producer is None:
        raise WrongUse("nothing can be written before the sink id was taken over")
    return client.producer


async def _begin(producer: Producer) -> None:
    producer.begin_transaction()


async def _is_committed(producer: Producer, *, is_last: bool) -> bool:
    try:
        await producer.commit_transaction()
    except TransactionPending:
        if is_last:
            raise
        return False
    return True
