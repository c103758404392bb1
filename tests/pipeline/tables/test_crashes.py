"""A driver dies at every point of a commit to a table, and the next one goes on: nothing is lost, nothing is there twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.tables.driving import DrivenTable, data_files, ids, rows_of
from tests.pipeline.tables.dying import POINTS, Death, Died, make_parquet_mortal, mortal
from tidelog.pipeline.tables.parquet_table import visible_files

pytestmark = pytest.mark.slow

_CASES = [(table_format, point) for table_format, points in POINTS.items() for point in points]
_UPSERT: dict[str, Any] = {"table__mode": "upsert", "table__key": "id", "table__order": "at"}


@pytest.mark.parametrize(("table_format", "point"), _CASES)
def test_a_driver_that_dies_in_a_commit_loses_and_doubles_nothing(
    table_format: str, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(point)
    DrivenTable(table_format, tmp_path).run_micro_batch(0, rows_of(range(10)), rows_of(range(10, 20)))
    with monkeypatch.context() as patched:
        make_parquet_mortal(death, patched)
        doomed = DrivenTable(table_format, tmp_path, make=mortal(death).prepared)
        with pytest.raises(Died, match=point):
            doomed.run_micro_batch(1, rows_of(range(20, 30)), rows_of(range(30, 40)))
    seen = ids(table_format, tmp_path)
    assert set(seen.values()) == {1}, "who reads meanwhile sees nothing twice"
    assert len(seen) in ({20, 30, 40} if table_format == "parquet" else {20, 40}), (
        "and of Delta and Iceberg all or nothing"
    )
    if table_format == "parquet":
        whole = visible_files(tmp_path / "table")
        assert sum(pq.read_metadata(file).num_rows for file in whole) in {20, 40}, "for who asks for it, all or nothing"
    heir = DrivenTable(table_format, tmp_path, run="run-2")
    heir.run_micro_batch(1, rows_of(range(20, 30)), rows_of(range(30, 40)))
    assert ids(table_format, tmp_path) == Counter(range(40))
    heir.run_micro_batch(2, rows_of(range(40, 50)))
    assert ids(table_format, tmp_path) == Counter(range(50))
    assert len(data_files(tmp_path)) == 5, "what nobody names is deleted"


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@pytest.mark.parametrize("point", ["before publish", "after publish", "after clean_up"])
def test_a_driver_that_dies_in_an_upsert_loses_and_doubles_nothing(
    table_format: str, point: str, tmp_path: Path
) -> None:
    DrivenTable(table_format, tmp_path, **_UPSERT).run_micro_batch(0, rows_of(range(20)))
    doomed = DrivenTable(table_format, tmp_path, make=mortal(Death(point)).prepared, **_UPSERT)
    with pytest.raises(Died):
        doomed.run_micro_batch(1, rows_of(range(10, 20)), rows_of(range(20, 30)))
    heir = DrivenTable(table_format, tmp_path, run="run-2", **_UPSERT)
    heir.run_micro_batch(1, rows_of(range(10, 20)), rows_of(range(20, 30)))
    assert ids(table_format, tmp_path) == Counter(range(30))


@pytest.mark.parametrize("table_format", list(POINTS))
def test_a_successor_that_dies_as_well_leaves_it_to_the_third(table_format: str, tmp_path: Path) -> None:
    for run, point in (("run-1", "after publish"), ("run-2", "after look"), ("run-3", "before clean_up")):
        doomed = DrivenTable(table_format, tmp_path, run=run, make=mortal(Death(point)).prepared)
        with pytest.raises(Died):
            doomed.run_micro_batch(0, rows_of(range(10)))
    DrivenTable(table_format, tmp_path, run="run-4").run_micro_batch(0, rows_of(range(10)))
    assert ids(table_format, tmp_path) == Counter(range(10))
    assert len(data_files(tmp_path)) == 1
