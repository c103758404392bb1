"""The commit of a micro-batch to a table of each format, without Spark: replays, rivals, refreshes, leftovers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.pipeline.tables.driving import FORMATS, DrivenTable, data_files, ids, loaded, read_by_library, rows_of
from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.errors import CheckpointChanged, SinkFailed, StagingFailed
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.tables.committing import TableCommit
from tidelog.pipeline.tables.errors import TableFenced
from tidelog.pipeline.tables.formats import Table, View, table_of
from tidelog.pipeline.tables.marker import Marker
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.parquet_table import visible_files

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("table_format", FORMATS)]


def test_a_replay_writes_nothing_and_leaves_nothing(table_format: str, tmp_path: Path) -> None:
    DrivenTable(table_format, tmp_path).run_micro_batch(0, rows_of(range(10)))
    before = data_files(tmp_path)
    DrivenTable(table_format, tmp_path, run="run-2").run_micro_batch(0, rows_of(range(10)), rows_of([]))
    assert ids(table_format, tmp_path) == Counter(range(10))
    assert data_files(tmp_path) == before


def test_a_new_checkpoint_is_no_replay(table_format: str, tmp_path: Path) -> None:
    DrivenTable(table_format, tmp_path).run_micro_batch(0, rows_of(range(10)))
    DrivenTable(table_format, tmp_path, query_id="query-2").run_micro_batch(0, rows_of(range(10)))
    assert ids(table_format, tmp_path) == Counter([*range(10), *range(10)])


def test_of_two_drivers_on_a_checkpoint_one_publishes_and_the_other_must_stop(
    table_format: str, tmp_path: Path
) -> None:
    older, newer = (DrivenTable(table_format, tmp_path, run=run) for run in ("older", "newer"))
    older.run_micro_batch(0, rows_of(range(10)))
    messages = older.write(1, rows_of(range(10, 20)))
    newer.run_micro_batch(1, rows_of(range(10, 20)))
    with pytest.raises(TableFenced, match="another driver has written micro-batch 1"):
        older.mode.commit(messages, 1)
    newer.run_micro_batch(2, rows_of(range(20, 30)))
    with pytest.raises(CheckpointChanged, match="another driver uses this checkpoint"):
        older.mode.commit(messages, 1)
    assert ids(table_format, tmp_path) == Counter(range(30))


def test_a_driver_that_looked_before_its_rival_published_does_not_publish_on_top(
    table_format: str, tmp_path: Path
) -> None:
    """Both have looked, and found nothing. The libraries would put the second commit behind the first if they were let."""
    older, newer = (DrivenTable(table_format, tmp_path, run=run) for run in ("older", "newer"))
    table = table_of(older.settings)
    older.write(0, rows_of([]))
    view = table.look(older.query_id)
    newer.run_micro_batch(0, rows_of(range(10)))

    class Belated(TableCommit):
        looks = 0

        def look(self, table: Table, marker: Marker) -> View:
            type(self).looks += 1
            return view if self.looks == 1 else super().look(table, marker)

    belated = DrivenTable(table_format, tmp_path, run="older", make=Belated.prepared)
    belated.run_micro_batch(0, rows_of(range(10)))
    assert Belated.looks == 2
    assert ids(table_format, tmp_path) == Counter(range(10))
    assert len(data_files(tmp_path)) == 1


def test_other_queries_may_write_between_look_and_commit(table_format: str, tmp_path: Path) -> None:
    mine, other = (DrivenTable(table_format, tmp_path, query_id=name) for name in ("mine", "other"))
    mine.run_micro_batch(0, rows_of(range(10)))
    table = table_of(mine.settings)
    view = table.look("mine")
    other.run_micro_batch(0, rows_of(range(10, 20)))

    class Belated(TableCommit):
        looks = 0

        def look(self, table: Table, marker: Marker) -> View:
            type(self).looks += 1
            return view if self.looks == 1 else super().look(table, marker)

    DrivenTable(table_format, tmp_path, query_id="mine", make=Belated.prepared).run_micro_batch(1, rows_of([77]))
    assert ids(table_format, tmp_path) == Counter([*range(20), 77])


def test_a_checkpoint_that_was_put_back_is_noticed(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    for number in range(3):
        query.run_micro_batch(number, rows_of([number]))
    with pytest.raises(CheckpointChanged, match="put back to an older state"):
        DrivenTable(table_format, tmp_path, run="run-2").run_micro_batch(1, rows_of([1]))
    (tmp_path / "checkpoint-query-1" / "offsets" / "2").write_text('v1\n{}\n{"source": {"0": 99}}')
    with pytest.raises(CheckpointChanged, match="other source offsets"):
        DrivenTable(table_format, tmp_path, run="run-2").run_micro_batch(2, rows_of([2]))
    assert ids(table_format, tmp_path) == Counter(range(3))


def test_files_of_attempts_that_lost_and_of_failed_tasks_are_deleted(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    lost = query.write(0, rows_of(range(5)))
    messages = query.write(0, rows_of(range(10)))
    query.mode.commit(messages, 0)
    assert len(data_files(tmp_path)) == 1
    failed = query.write(1, rows_of(range(10, 15)))
    query.mode.abort([*failed, None], 1)
    assert len(data_files(tmp_path)) == 1
    assert lost != messages
    assert ids(table_format, tmp_path) == Counter(range(10))


def test_spark_aborts_what_failed_in_its_commit_and_nothing_published_is_lost(
    table_format: str, tmp_path: Path
) -> None:
    query = DrivenTable(table_format, tmp_path)
    messages = query.write(0, rows_of(range(10)))
    query.mode.commit(messages, 0)
    query.mode.abort(messages, 0)
    assert ids(table_format, tmp_path) == Counter(range(10))


def test_a_batch_job_with_a_transaction_of_its_own_is_written_once(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    query.write(0, rows_of([]))
    for version in (3, 3, 4, 2):
        mode = _batch_mode(query, txnAppId="nightly", txnVersion=str(version))
        mode.commit([mode.task_write(iter([rows_of([version])]), _batch_task())], None)
    for _ in range(2):
        mode = _batch_mode(query)
        mode.commit([mode.task_write(iter([rows_of([9])]), _batch_task())], None)
    assert ids(table_format, tmp_path) == Counter([3, 4, 9, 9])


def test_tasks_leave_few_files_and_the_driver_puts_small_ones_together(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path, files__max="3", partition__by="country")
    query.run_micro_batch(0, *(rows_of(range(each * 10, each * 10 + 10)) for each in range(6)))
    assert len(data_files(tmp_path)) == 3 - 1, "one of each country: twelve were written"
    assert ids(table_format, tmp_path) == Counter(range(60))


def test_an_empty_micro_batch_changes_nothing(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    query.run_micro_batch(0, rows_of(range(3)))
    query.run_micro_batch(1, rows_of([]), rows_of([]))
    query.run_micro_batch(2, rows_of([3]))
    assert ids(table_format, tmp_path) == Counter(range(4))


def test_a_disk_that_takes_nothing_is_named(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    mode = query.mode
    directory = next(tmp_path.rglob("metadata")).parent if table_format == "iceberg" else tmp_path / "table"
    root = directory / ("_tidelog/staging" if table_format == "parquet" else "data")
    root.parent.mkdir(parents=True, exist_ok=True)
    root.write_text("a file where a directory should be")
    with pytest.raises(StagingFailed, match=f"could not write to {root}"):
        mode.task_write(iter([rows_of([1])]), query.task(0))


def _batch_mode(query: DrivenTable, **options: str) -> TableCommit:
    settings = query.settings
    catalog = {f"catalog.{name}": value for name, value in settings.catalog.items()}
    where = {"table.name": settings.name, "table.path": None if settings.path is None else str(settings.path)}
    given = {"table.format": settings.table_format, **catalog, **options}
    given |= {name: value for name, value in where.items() if value is not None}
    return TableCommit.prepared(TableSettings.of_batch(given), rows_of([]).schema)


def _batch_task() -> Task:
    return Task(partition=0, attempt=0, attempt_id=1, query_id=None, run_id=None, micro_batch_id=None)


def test_a_marker_survives_what_the_table_forgets(table_format: str, tmp_path: Path) -> None:
    """Snapshots expire, and logs are cleaned up; a micro-batch that was published stays published."""
    query = DrivenTable(table_format, tmp_path)
    for number in range(20):
        query.run_micro_batch(number, rows_of([number]))
    if table_format == "iceberg":
        table = loaded(tmp_path)
        old = [snapshot.snapshot_id for snapshot in table.snapshots()][:-1]
        expiry = table.maintenance.expire_snapshots()
        for snapshot_id in old:
            expiry = expiry.by_id(snapshot_id)
        expiry.commit()
    elif table_format == "delta":
        opened = DeltaTable(tmp_path / "table")
        opened.create_checkpoint()
        for entry in (tmp_path / "table" / "_delta_log").glob("*0?.json"):
            entry.unlink()
    else:
        log = tmp_path / "table" / "_tidelog" / "commits" / "query-1"
        assert len(list(log.glob("*.json"))) == 16
    DrivenTable(table_format, tmp_path, run="run-2").run_micro_batch(19, rows_of([19]))
    assert ids(table_format, tmp_path) == Counter(range(20))


def test_a_file_that_was_lost_is_named(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    messages = query.write(0, rows_of([1]), rows_of([3]))
    data_files(tmp_path)[0].unlink()
    with pytest.raises(StagingFailed, match=r"cannot read .* which a task has written .*driver and executors share"):
        query.mode.commit(messages, 0)
    assert read_by_library(table_format, tmp_path).num_rows == 0


def test_rows_are_cast_to_the_time_zone_of_tables(table_format: str, tmp_path: Path) -> None:
    berlin = pa.schema([("id", pa.int64()), ("country", pa.string()), ("at", pa.timestamp("us", "Europe/Berlin"))])
    query = DrivenTable(table_format, tmp_path, partition__by="hour(at)")
    query.run_micro_batch(0, rows_of(range(4), berlin))
    assert ids(table_format, tmp_path) == Counter(range(4))
    if table_format == "parquet":
        names = sorted(file.parent.name for file in visible_files(tmp_path / "table"))
        assert names == ["at_hour=1970-01-01-00", "at_hour=1970-01-01-01"]


def test_a_table_that_is_dropped_under_a_query_is_named(table_format: str, tmp_path: Path) -> None:
    query = DrivenTable(table_format, tmp_path)
    messages = query.write(0, rows_of([1]))
    mode = query.mode
    (tmp_path / "catalog.db").unlink() if table_format == "iceberg" else (tmp_path / "table").rename(tmp_path / "gone")
    with pytest.raises(SinkFailed):
        mode.commit(messages, 0)


def test_small_files_of_a_delta_table_are_compacted_and_a_replay_is_still_known(
    table_format: str, tmp_path: Path
) -> None:
    if table_format != "delta":
        with pytest.raises(OptionRefused, match=r"compact.every"):
            DrivenTable(table_format, tmp_path, compact__every="2")
        return
    query = DrivenTable("delta", tmp_path, compact__every="4")
    for number in range(4):
        query.run_micro_batch(number, rows_of([number]))
    assert len(DeltaTable(tmp_path / "table").file_uris()) == 1
    DrivenTable("delta", tmp_path, run="run-2").run_micro_batch(3, rows_of([3]))
    assert ids("delta", tmp_path) == Counter(range(4))
