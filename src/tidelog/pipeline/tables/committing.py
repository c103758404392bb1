"""The commit of a micro-batch to a table. Tasks write files; the driver publishes them with a marker, in one commit of the table.

1. The table is looked at, which also finishes what a dead driver left half done. Its marker tells whether the micro-batch is published.
2. A replay of what is published writes nothing, and deletes what it wrote.
3. Files and marker are published on top of the very state that was looked at: if anybody else has changed the table meanwhile, and be it
   another driver with the same micro-batch, the commit is refused, and begins again with 1.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.pipeline.sink.errors import CheckpointChanged, SinkFailed
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.source_offsets import read_source_offsets
from tidelog.pipeline.tables.changes import last_changes
from tidelog.pipeline.tables.errors import CommitConflict, TableFailed, TableFenced
from tidelog.pipeline.tables.files import DataFile, FileWriter, Place, check_files, delete_files
from tidelog.pipeline.tables.formats import Table, View, table_of
from tidelog.pipeline.tables.marker import Marker, digest
from tidelog.pipeline.tables.merging import merged_files
from tidelog.pipeline.tables.options import TableSettings
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS_MAX: Final = 12
"""So often a commit is tried while others change the table: some ten seconds."""

_PAUSE_MS: Final = 20
_PAUSE_MAX_MS: Final = 2_000
_RUNS_MAX: Final = 64

_published: Final[OrderedDict[tuple[str, str], int]] = OrderedDict()
"""Which micro-batch this process has published last, by table and run: so that a driver notices that another has come after it."""


@dataclass(frozen=True, slots=True)
class FilesMessage(WriterCommitMessage):
    """What the driver is told by a task."""

    task: Task
    files: tuple[DataFile, ...]


class TableCommit:
    """A mode of the sink. The steps of a commit are methods of their own, in the order in which `commit` takes them."""

    def __init__(self, settings: TableSettings, schema: pa.Schema, root: Path) -> None:
        self._settings = settings
        self._schema = schema
        self._root = root

    @classmethod
    def prepared(cls, settings: TableSettings, schema: pa.Schema) -> TableCommit:
        """For a table that is there, with these columns; it is made if need be. Raises TableFailed, or OptionRefused."""
        return cls(settings, schema, table_of(settings).prepare(schema))

    def task_write(self, rows: Iterator[pa.RecordBatch], task: Task) -> WriterCommitMessage:
        """Write all rows to files that nobody names yet. Raises BadRows or StagingFailed."""
        writer_id, number, run = self._names(task)
        directory = self._place(writer_id).of(number, run)
        terms = self._settings.terms if self._settings.upsert is None else ()
        writer = FileWriter(directory, f"{task.partition}-{task.attempt_id}", self._schema, self._settings, terms)
        try:
            for batch in rows:
                writer.append(batch)
            return FilesMessage(task, writer.finish())
        except BaseException:
            writer.discard()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Make all rows part of the table, once. Raises SinkFailed."""
        files = _files_in(messages)
        marker = self._marker(messages, micro_batch_id)
        table = table_of(self._settings)
        standing = self._publish_once(table, files, marker)
        if standing.run != marker.run:
            delete_files(files)
        self.clean_up(table, standing)
        if standing == marker and files:
            self.compact(table, marker)

    def abort(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> None:
        """Delete the files of a micro-batch that no commit was tried for. After a commit that failed they may be published all the same."""
        del micro_batch_id
        if any(message is None for message in messages):
            delete_files(_files_in(messages))

    def look(self, table: Table, marker: Marker) -> View:
        """The table as it is."""
        return table.look(marker.writer_id)

    def is_decided(self, view: View, marker: Marker) -> bool:
        """Whether the micro-batch is published. Raises CheckpointChanged where that was under another checkpoint of the same query."""
        last = view.marker
        if last is None or last.number < marker.number:
            return False
        if self._settings.writer is not None:
            return True
        if last.number > marker.number:
            raise CheckpointChanged(
                f"micro-batch {marker.number} is to be written, and {last.number} was written to the {self._settings.called} "
                "already: another driver uses this checkpoint, or it was put back to an older state"
            )
        if last.source != marker.source:
            raise CheckpointChanged(
                f"micro-batch {last.number} was written before, when it ended at other source offsets than the checkpoint "
                "says now: the checkpoint was changed by hand; put it back, or begin with a new one"
            )
        if last.run != marker.run and (str(self._root), marker.run) in _published:
            raise TableFenced(
                f"another driver has written micro-batch {last.number} to the {self._settings.called}, so this query must "
                "not write any more: only one query at a time may use a checkpoint"
            )
        return True

    def gather(self, files: tuple[DataFile, ...], marker: Marker) -> tuple[DataFile, ...]:
        """Put small files together where there are more than files.max, and delete what attempts wrote whose message did not come.

        Raises StagingFailed where the driver does not see what tasks have written.
        """
        place = self._place(marker.writer_id)
        check_files(files)
        if self._settings.upsert is None:
            files = merged_files(files, place.of(marker.number, marker.run), self._settings)
        place.clear_losers(marker.number, marker.run, files)
        return files

    def publish(self, view: View, files: tuple[DataFile, ...], marker: Marker) -> None:
        """The decision. Raises CommitConflict where somebody else was faster."""
        if self._settings.upsert is None:
            view.append(files, marker)
            return
        changes = last_changes(files, self._settings)
        view.upsert(changes, marker, self._place(marker.writer_id).of(marker.number, marker.run))

    def clean_up(self, table: Table, marker: Marker) -> None:
        """Delete what is not needed now that the micro-batch is published, by whomever."""
        table.clean_up(self._place(marker.writer_id), marker)

    def compact(self, table: Table, marker: Marker) -> None:
        """Put small files of the table together, if it is time for that."""
        table.compact(marker)

    def _publish_once(self, table: Table, files: tuple[DataFile, ...], marker: Marker) -> Marker:
        """The marker under which the rows of the micro-batch are in the table: ours, or that of whoever published them before."""
        is_gathered = False
        reason = ""
        for attempt in range(ATTEMPTS_MAX):
            view = self.look(table, marker)
            if self.is_decided(view, marker):
                return view.marker or marker
            if not files:
                return marker
            files = files if is_gathered else self.gather(files, marker)
            is_gathered = True
            try:
                self.publish(view, files, marker)
            except CommitConflict as conflict:
                reason = str(conflict)
                _pause(attempt)
            else:
                self._remember(marker)
                return marker
        raise TableFailed(
            f"the {self._settings.called} was changed by others {ATTEMPTS_MAX} times while micro-batch {marker.number} was to "
            f"be committed ({reason}); nothing is lost, start the query again"
        )

    def _remember(self, marker: Marker) -> None:
        _published[str(self._root), marker.run] = marker.number
        while len(_published) > _RUNS_MAX:
            _published.popitem(last=False)

    def _marker(self, messages: Sequence[WriterCommitMessage | None], micro_batch_id: int | None) -> Marker:
        task = next((message.task for message in messages if isinstance(message, FilesMessage)), None)
        if task is None:
            raise SinkFailed("no task has told which query it belongs to")
        writer_id, number, run = self._names(task)
        checkpoint = self._settings.checkpoint
        if checkpoint is None or micro_batch_id is None:
            return Marker(writer_id=writer_id, number=number, run=run, source=digest(""))
        source = read_source_offsets(checkpoint, micro_batch_id)
        return Marker(writer_id=writer_id, number=micro_batch_id, run=run, source=digest(source.digest))

    def _names(self, task: Task) -> tuple[str, int, str]:
        """Writer id, number and run of what a task writes."""
        writer = self._settings.writer
        if writer is not None:
            return writer.writer_id, writer.number, digest(writer.job)
        if task.query_id is None or task.run_id is None or task.micro_batch_id is None:
            raise SinkFailed("no task has told which query it belongs to")
        return task.query_id, task.micro_batch_id, digest(task.run_id)

    def _place(self, writer_id: str) -> Place:
        return Place(root=self._root, writer_id=writer_id)


def _files_in(messages: Sequence[WriterCommitMessage | None]) -> tuple[DataFile, ...]:
    return tuple(file for message in messages if isinstance(message, FilesMessage) for file in message.files)


def _pause(attempt: int) -> None:
    delay_ms = min(_PAUSE_MAX_MS, _PAUSE_MS << attempt) * (0.5 + real_runtime().randomness.fraction() / 2)
    threading.Event().wait(delay_ms / 1000)
