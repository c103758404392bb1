"""Mode `2pc`: every task writes its rows itself, in a transaction that it prepares (KIP-939), and the driver decides about all at once.

A commit goes through these steps, each a method, and the driver may die before, in or after any of them:

1. `take_over`       The sink id becomes the driver's transactional id. Whoever had it before can decide nothing any more.
2. `settle`          What an earlier driver decided and did not finish is finished. What it had only listed is void.
3. `is_decided`      A replay of what is decided writes nothing.
4. `adopt`           The tasks' transactions are taken from their writers. Each must still be open: what is lost is noticed here.
5. `write_manifest`  They are listed in a file beside the checkpoint, which stays until all of them have ended.
6. `decide`          A transaction of the driver's own commits the marker of the micro-batch with the id of this decision, and the source
                     offsets. This is the point of no return, and brokers let nobody pass it who is fenced.
7. `confirm`         The file says so, too: brokers forget offsets after some days.
8. `finish`          The tasks' transactions are committed.
9. `forget`          The manifest is removed.
10. `clear`          What other attempts and dead runs have left open is aborted.

A task that is late finds that its micro-batch is decided, before it prepares what it has written, and aborts; or else it had begun before
the driver looked for what is open, and the driver aborts it. That is why `clear` first waits until everybody can see what is decided.

Who dies before 6 has decided nothing, and the next driver aborts what it finds open. Who dies after 6 leaves a manifest, and its id among
the committed offsets: the next driver commits what the manifest lists, however late it comes, since these transactions never time out.

Nobody must abort what somebody else has decided, or is about to. So whoever aborts first adopts, then asks the brokers whether it still has
the sink id, and only then aborts, in the name of that adoption. And whoever decides first takes the sink id, then adopts, then decides. In
whatever order two drivers do this, the one who aborts hears that it is fenced, or that its adoption is void, or the one who decides finds
that the transaction is not open any more, while nothing is decided yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.client import (
    AdoptedTransaction,
    ClientError,
    PreparedTransaction,
    Producer,
    ProducerFenced,
    TransactionKeeper,
    WrongUse,
)
from tidelog.pipeline.sink.attempts import Attempts
from tidelog.pipeline.sink.batch_commit import BatchCommit, Work
from tidelog.pipeline.sink.commit_trouble import is_fence, may_mean_timeout, may_pass
from tidelog.pipeline.sink.driver_client import DriverClient, driver_client, forget_driver_client
from tidelog.pipeline.sink.errors import CheckpointChanged, RowsGone, SinkFailed, SinkFenced
from tidelog.pipeline.sink.ledger import Marker
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.prepared import Manifest, Manifests, is_task_id, manifest_directory
from tidelog.pipeline.sink.source_offsets import read_source_offsets
from tidelog.pipeline.sink.two_phase_trouble import explained
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa

_LOOKS_MAX: Final = 50
_LOOK_AGAIN_S: Final = 0.1

CLEARINGS_MAX: Final = 5  # in a row; what is left then is left to the next micro-batch

_fenced_from: Final[set[str]] = set()
"""Sink ids that this process was fenced from: cleaning up is the task of whoever took them."""


@dataclass(frozen=True, slots=True)
class PreparedMessage(WriterCommitMessage):
    """What the driver is told by a task."""

    task: Task
    prepared: PreparedTransaction | None  # None where the task found that the micro-batch is decided
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWork(Work):
    """All that is to be decided together."""

    prepared: tuple[PreparedTransaction, ...]
    written_topics: frozenset[str]
    is_skipped: bool  # by a task at least

    @property
    def topics(self) -> set[str]:
        """Which topics got rows."""
        return set(self.written_topics)


class TwoPhaseCommit(BatchCommit):
    """Steps that are not here, the transaction of the driver's own among them, are those of mode batch."""

    def __init__(self, settings: SinkSettings) -> None:
        super().__init__(settings)
        self._manifests = Manifests(manifest_directory(settings), settings.sink_id)

    def task_write(self, rows: Iterator[pa.RecordBatch], task: Task) -> PreparedMessage:
        """Write all rows in one transaction, and prepare it. Raises SinkFailed, or BrokersSilent."""
        from tidelog.pipeline.sink.rows import RowEncoder  # the codec is for tasks only
        from tidelog.pipeline.sink.two_phase_task import TaskTransaction

        with TaskTransaction(self._settings, task) as transaction:
            if transaction.is_decided():
                return PreparedMessage(task, None)
            prepared, topics = transaction.write(RowEncoder(self._settings).encode(rows))
        return PreparedMessage(task, prepared, topics)

    def abort(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Abort what is open, after finishing what is decided. Raises SinkFailed."""
        del messages, micro_batch_id  # what is open says more: also of attempts that were killed
        if self._settings.sink_id in _fenced_from:
            return
        client = driver_client(self._settings)
        try:
            if client.producer is None:
                client.take_over()
            self.settle(client)
            self.clear(client)
        except ProducerFenced:
            forget_driver_client(self._settings)
        except ClientError as error:
            forget_driver_client(self._settings)
            raise SinkFailed(explained(error, self._settings)) from error

    def take_over(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        """As in mode batch. Whoever has the sink id is to clean up again, though it was fenced from it before."""
        super().take_over(client, work, attempts)
        _fenced_from.discard(self._settings.sink_id)

    def settle(self, client: DriverClient) -> None:
        """Carry out what an earlier driver, or attempt, has decided, and make void what it has only listed."""
        found = self._manifests.read_all()
        if not found:
            return
        # In this order: whoever has taken the sink id since may have listed what it is about to decide.
        client.run(_producer_of(client).check_not_fenced())
        decided = {marker.note for marker in client.read_markers().markers.values()}
        for manifest in found:
            if manifest.is_decided or manifest.decision_id in decided:
                client.run(self._keeper(client).finish(manifest.prepared, is_committed=True))
            self._manifests.remove(manifest.decision_id)

    def adopt(self, client: DriverClient, work: PreparedWork) -> list[AdoptedTransaction]:
        """Take all transactions into our hands. Raises RowsGone where one is not open any more."""
        found = client.run(self._keeper(client).adopt(each.transactional_id for each in work.prepared))
        adopted = [each for each in found.values() if each is not None]
        if missing := set(work.prepared) - {each.prepared for each in adopted}:
            raise RowsGone(
                f"the rows of {len(missing)} task(s) are gone: somebody has aborted the prepared transaction "
                f"{min(map(str, missing))}; nothing of the micro-batch was committed, start the query again"
            )
        return adopted

    def write_manifest(self, work: PreparedWork) -> PreparedWork:
        """Write down what is to be decided; returns the work with the name of the decision. Raises SinkFailed."""
        if not work.prepared or work.marker is None:
            return work
        decision_id = f"{work.marker.micro_batch_id}-{real_runtime().randomness.uuid().hex}"
        manifest = Manifest(sink_id=self._settings.sink_id, decision_id=decision_id, prepared=work.prepared)
        try:
            self._manifests.write(manifest)
        except OSError as error:
            raise SinkFailed(f"the manifest of a two-phase commit cannot be written: {error}") from error
        return replace(work, marker=replace(work.marker, note=decision_id))

    def confirm(self, work: PreparedWork) -> None:
        """Note in the manifest that it is decided. Raises SinkFailed."""
        if work.marker is not None and work.marker.note:
            try:
                self._manifests.confirm(work.marker.note)
            except OSError as error:
                raise SinkFailed(f"the manifest of a two-phase commit cannot be marked as decided: {error}") from error

    def finish(self, client: DriverClient, adopted: Sequence[AdoptedTransaction]) -> None:
        """Commit what is decided, whoever has adopted it meanwhile."""
        keeper = self._keeper(client)
        left = client.run(keeper.end(adopted, is_committed=True))
        client.run(keeper.finish(left, is_committed=True))

    def forget(self, work: PreparedWork) -> None:
        """Remove the manifest: all has ended that it lists."""
        if work.marker is not None and work.marker.note:
            self._manifests.remove(work.marker.note)

    def clear(self, client: DriverClient) -> None:
        """Abort what tasks of this sink have open, which nobody needs. Where somebody newer has the sink id, that is for them to do."""
        self._await_visible(client)
        keeper = self._keeper(client)
        for _ in range(CLEARINGS_MAX):
            open_ids = self._open_ids(client)
            if not open_ids:
                return
            adopted = client.run(keeper.adopt(open_ids))
            try:
                # Only now: who takes the sink id from here on adopts what it decides after us, and our adoption is void.
                client.run(_producer_of(client).check_not_fenced())
            except ProducerFenced:
                forget_driver_client(self._settings)
                return
            ours = [each for each in adopted.values() if each is not None]
            if not client.run(keeper.end(ours, is_committed=False)):
                return  # else a task has asked for its id again meanwhile, and our adoption is void

    def clean_up(self, work: Work) -> None:
        """Delete the directory that a batch job had for its manifest, unless another job has one there."""
        if self._settings.checkpoint is None:
            with suppress(OSError):
                manifest_directory(self._settings).rmdir()

    def _has_committed(self, work: Work, attempts: Attempts) -> bool:
        try:
            return super()._has_committed(work, attempts)
        except (SinkFenced, CheckpointChanged):
            _fenced_from.add(self._settings.sink_id)  # by the one who has come further
            raise

    def _commit_once(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        super()._commit_once(client, work, attempts)
        self.clear(client)

    def _write_and_decide(self, client: DriverClient, work: Work, attempts: Attempts) -> None:
        written = _prepared_work(work)
        _check_not_skipped(written)
        adopted = self.adopt(client, written)
        listed = self.write_manifest(written)
        self.begin(client)
        self.send_marker(client, listed)
        self.send_source_offsets(client, listed)
        self.decide(client, listed, attempts)
        self.confirm(listed)
        self.finish(client, adopted)
        self.forget(listed)

    def _on_failure(self, error: ClientError, client: DriverClient, attempts: Attempts) -> None:
        if not (is_fence(error) or may_pass(error) or may_mean_timeout(error)):
            raise SinkFailed(explained(error, self._settings)) from error
        super()._on_failure(error, client, attempts)

    def _await_visible(self, client: DriverClient) -> None:
        """Wait until no decision is on its way to those who ask: a task that does not hear of it would prepare what nobody ends.

        Brokers say of a marker when it may yet change, but of the first one at a topic nothing until it is there. A topic that was
        deleted meanwhile has none, and is not waited for without end.
        """
        decided = set() if client.found is None else client.found.markers.keys()
        for _ in range(_LOOKS_MAX):
            if decided <= client.read_markers().markers.keys():
                return
            client.run(asyncio.sleep(_LOOK_AGAIN_S))

    def _keeper(self, client: DriverClient) -> TransactionKeeper:
        return TransactionKeeper(client.cluster, client.config, client.runtime)

    def _open_ids(self, client: DriverClient) -> list[str]:
        listed = client.run(client.admin.transactions.list(states=["Ongoing"]))
        return [row.transactional_id for row in listed if is_task_id(row.transactional_id, self._settings.sink_id)]

    def _work(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> Work:
        said = [message for message in messages if isinstance(message, PreparedMessage)]
        work = PreparedWork(
            files=(),
            prepared=tuple(_written(message.prepared for message in said)),
            written_topics=frozenset(topic for message in said for topic in message.topics),
            is_skipped=any(message.prepared is None for message in said),
        )
        checkpoint = self._settings.checkpoint
        if checkpoint is None or micro_batch_id is None:
            job = self._settings.staging.name
            return replace(work, marker=Marker(query_id=job, run_id=job, micro_batch_id=0, source_digest=""))
        task = said[0].task if said else None
        if task is None or task.query_id is None or task.run_id is None:
            raise SinkFailed(f"no task of micro-batch {micro_batch_id} has told which query it belongs to")
        source = read_source_offsets(checkpoint, micro_batch_id)
        marker = Marker(
            query_id=task.query_id, run_id=task.run_id, micro_batch_id=micro_batch_id, source_digest=source.digest
        )
        return replace(work, marker=marker, source=source)


def leave_two_phase(settings: SinkSettings, client: DriverClient) -> None:
    """End what the query has prepared, and not ended, before its commit mode was changed. Raises SinkFailed, or what may pass."""
    mode = TwoPhaseCommit(settings)
    try:
        if client.producer is None:
            client.take_over()
        mode.settle(client)
        mode.clear(client)
        with suppress(OSError):
            manifest_directory(settings).rmdir()  # so that this is done once
        mode.clear(client)  # what a late task has opened before the directory was gone; a later one makes it again
    except ClientError as error:
        if is_fence(error) or may_pass(error):
            raise
        raise SinkFailed(explained(error, settings)) from error


def _written(prepared: Iterable[PreparedTransaction | None]) -> Iterator[PreparedTransaction]:
    """Those that have rows."""
    return (each for each in prepared if each is not None and each.producer is not None)


def _prepared_work(work: Work) -> PreparedWork:
    if not isinstance(work, PreparedWork):
        raise WrongUse("this work is of another commit mode")
    return work


def _check_not_skipped(work: PreparedWork) -> None:
    if work.is_skipped:
        raise SinkFailed(
            "a task found that its micro-batch was committed before, and now it is not: somebody has deleted offsets of the "
            "sink's group, or changed the option sink.id; start the query again"
        )


def _producer_of(client: DriverClient) -> Producer:
    if client.producer is None:
        raise WrongUse("nothing can be decided before the sink id was taken over")
    return client.producer
