"""Declared pipelines that are killed, refreshed, and fail: everything comes out once, or is told in a sentence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.pipeline.declared.rig import PATIENCE_S, Pipeline
from tests.pipeline.hand import Hand
from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.leftovers import leftovers
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(4 * PATIENCE_S)]


@pytest.mark.parametrize("only_spark", [False, True], ids=["the command", "the JVM of Spark"])
def test_a_run_that_was_killed_is_resumed_with_nothing_lost_or_doubled(
    hand: Hand, tmp_path: Path, *, only_spark: bool
) -> None:
    pipeline = Pipeline(hand, tmp_path, rows_per_micro_batch=20)
    pipeline.add_numbers(400)
    pipeline.declare("copy")
    with pipeline.start() as process:
        pipeline.wait_for_micro_batch("copy", SimulatedRandomness(f"kill {only_spark}").below(12))
        pipeline.kill(process, only_spark=only_spark)
        process.process.wait(PATIENCE_S)
    assert pipeline.view().state == (state.FAILED if only_spark else state.DIED)
    pipeline.run()
    assert pipeline.is_exactly_once("copy")
    assert leftovers(pipeline.storage) == []
    if not only_spark:
        pipeline.run()
        assert pipeline.rows() == {"copy": 0}
        assert pipeline.is_exactly_once("copy")


def test_a_full_refresh_writes_once_more_what_was_named_and_a_failing_flow_leaves_the_others_alone(
    hand: Hand, tmp_path: Path
) -> None:
    pipeline = Pipeline(hand, tmp_path)
    pipeline.add_numbers(40)
    pipeline.declare("again", "not_again")
    pipeline.run()
    pipeline.run("--full-refresh", "again_out")
    assert pipeline.counts("again") == Counter(2 * list(range(40)))
    assert pipeline.is_exactly_once("not_again")
    hand.delete(pipeline.topics["again"])
    pipeline.add_numbers(10)
    said = pipeline.run(exit_code=1)
    assert f"the flow again failed: topic '{pipeline.topics['again']}'" in said
    assert "Spark's log: " in said
    assert pipeline.is_exactly_once("not_again")


def test_a_format_that_is_not_there_is_named(hand: Hand, tmp_path: Path) -> None:
    pipeline = Pipeline(hand, tmp_path)
    pipeline.write('\ndp.create_sink("s", "tidelgo", {})\n@dp.append_flow(target="s")\ndef f(): return numbers()\n')
    assert "there is no format tidelgo" in pipeline.run(exit_code=1)


def test_tables_are_kept_over_runs_of_both_kinds(hand: Hand, tmp_path: Path) -> None:
    pipeline = Pipeline(hand, tmp_path)
    pipeline.add_numbers(20)
    pipeline.write("\n@dp.table\ndef kept(): return numbers().selectExpr('CAST(value AS STRING) value')\n")
    sql = tmp_path / "transformations" / "more.sql"
    sql.write_text("CREATE STREAMING TABLE later AS SELECT value FROM STREAM kept;\n")
    pipeline.run()
    pipeline.add_numbers(15)
    with pipeline.start("--continuous") as process:
        pipeline.wait_for_micro_batch("kept", 1)
        pipeline.wait_for_micro_batch("later", 1)
        pipeline.tell("stop")
        process.process.wait(PATIENCE_S)
    pipeline.run()
    import pyarrow.dataset as ds  # the rows, by another reader

    for table in ("kept", "later"):
        values = ds.dataset(tmp_path / "storage" / "tables" / table, exclude_invalid_files=True).to_table()["value"]
        assert sorted(int(value.as_py()) for value in values) == list(range(35))
