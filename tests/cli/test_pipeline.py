"""`tidelog pipeline` without Spark: what is refused before it starts, and how runs are shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.cli.main import main
from tidelog.cli.pipeline import master_of
from tidelog.cli.pipeline_panel import bar, flow_lines, last_word, line, page, redrawn
from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.known import KnownPipeline, remember
from tidelog.pipeline.declared.lock import PipelineLock
from tidelog.pipeline.declared.places import Places, state_dir
from tidelog.pipeline.declared.process_identity import identity_of, own_identity
from tidelog.pipeline.declared.state import FlowView, RunView, write_state

VIEW = RunView(
    pipeline="orders", spec="/p/spark-pipeline.yml", storage="/p/storage", mode="triggered", master="local[2]",
    process=own_identity(), state=state.RUNNING, started_ms=0, updated_ms=9_000, log="/p/storage/_tidelog/spark.log",
    flows=(
        FlowView(name="clean", target="good", state=state.RUNNING, rows=1_500, rows_per_s=150.2, lag=4_500, progress=0.25,
                 micro_batch_id=7, micro_batch_ms=321, last_commit_ms=7_500),
        FlowView(name="by_key", state=state.WAITING),
    ),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def remembered(tmp_path: Path, **changes: object) -> RunView:
    storage = tmp_path / "storage"
    view = replace(VIEW, storage=str(storage), **changes)  # type: ignore[arg-type]
    write_state(Places(storage).state, view)
    remember(state_dir(os.environ), KnownPipeline(name=view.pipeline, spec=view.spec, storage=view.storage))
    return view


def test_flows_are_a_table_with_a_bar() -> None:
    heading, first, second = flow_lines(VIEW, now_ms=9_000)
    assert heading.split() == [
        "FLOW", "TARGET", "STATE", "ROWS/S", "ROWS", "LAG", "PROGRESS", "MICRO-BATCH", "LAST", "MS", "LAST", "COMMIT",
    ]  # fmt: skip
    assert first.split() == [
        "clean",
        "good",
        "running",
        "150",
        "1,500",
        "4,500",
        "###---------",
        "25%",
        "7",
        "321",
        "1s",
        "ago",
    ]
    assert second.split() == ["by_key", "-", "waiting", "0", "0", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("progress", "shown"),
    [(None, "-"), (0.0, "------------   0%"), (0.999, "###########-  99%"), (1.0, "############ 100%")],
)
def test_a_bar_is_full_only_when_all_is_done(progress: float | None, shown: str) -> None:
    assert bar(progress) == shown


def test_a_page_is_drawn_over_the_one_before() -> None:
    lines = page(VIEW, now_ms=9_000, is_in_colour=False, width=40)
    assert lines[0] == "PIPELINE orders   triggered   Spark loca"
    assert redrawn(lines, above=0).count("\n") == 4
    assert redrawn(lines, above=4).startswith("\x1b[4F")


def test_a_line_for_a_log_has_all_flows() -> None:
    assert line(VIEW, now_ms=9_000) == (
        "9s  running  clean running 150 rows/s rows 1500 lag 4500  by_key waiting 0 rows/s rows 0 lag -"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": state.DONE}, "done: 1,500 rows read by 2 flows in 9s"),
        ({"state": state.DONE, "flows": ()}, "done: nothing new, 0 rows read by 0 flows in 9s"),
        ({"state": state.STOPPED}, "stopped: 1,500 rows read by 2 flows in 9s; the next run goes on there"),
        ({"state": state.FAILED, "failure": "no broker"}, "no broker\n  Spark's log: /p/storage/_tidelog/spark.log"),
    ],
)
def test_the_last_word_says_how_it_ended(changes: dict[str, object], said: str) -> None:
    assert last_word(replace(VIEW, **changes)) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*,4]", "local-cluster[2,1,1024]", "spark://h:7077", "yarn", "k8s://https://h"],
)
def test_masters_of_every_kind_are_taken(master: str) -> None:
    assert master_of(master) == master


@pytest.mark.parametrize("master", ["", "local[", "locale", "two words", "sc://h:15002", "local[0.5]"])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(ValueError, match="is no Spark master"):
        master_of(master)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (None, "has no spark-pipeline.yml"),
        ("name: [", "line 1: is not YAML"),
        ("{name: a, storage: s, colour: red}", "unknown key 'colour'"),
        ("{name: a, storage: s, libraries: [{glob: {include: t/**}}]}", "there is no file at t/**"),
    ],
)
def test_a_bad_spec_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: str | None, said: str
) -> None:
    if spec is not None:
        (tmp_path / "spark-pipeline.yml").write_text(spec)
    assert main(["pipeline", "run"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_a_pipeline_that_runs_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").touch()
    (tmp_path / "spark-pipeline.yml").write_text(
        "{name: orders, storage: storage, libraries: [{glob: {include: a.py}}]}"
    )
    remembered(tmp_path, mode="continuous")
    with PipelineLock.acquire(Places(tmp_path / "storage").lock):
        assert main(["pipeline", "run"]) == 1
    said = capsys.readouterr().err
    assert f"the pipeline orders is being run already (process {os.getpid()}, continuous)" in said


def test_a_full_refresh_does_not_go_with_an_always_on_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "--continuous", "--full-refresh"]) == 2
    assert "--full-refresh goes with a triggered run" in capsys.readouterr().err


def test_init_makes_a_pipeline_and_refuses_to_overwrite_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "init", "orders"]) == 0
    assert "made orders/spark-pipeline.yml" in capsys.readouterr().out
    assert main(["pipeline", "init", "orders"]) == 1
    assert "is there already" in capsys.readouterr().err


def test_the_list_tells_runs_from_what_has_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list"]) == 0
    assert "no pipeline has run here yet" in capsys.readouterr().err
    remembered(tmp_path)
    assert main(["pipeline", "list", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["pipeline"], row["state"], row["pid"]) == ("orders", "running", os.getpid())
    remembered(tmp_path, process=replace(own_identity(), started_ticks=1))
    assert main(["pipeline", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["orders", "died", "triggered", "-"]


def test_status_has_the_table_and_why_it_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remembered(tmp_path, state=state.FAILED, failure="topic 'x' does not exist", ended_ms=9_000)
    assert main(["pipeline", "status", "orders"]) == 1
    said = capsys.readouterr().out
    assert "failed: topic 'x' does not exist\nSpark's log: " in said
    assert main(["pipeline", "status", "orders", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["flows"][0]["lag"] == 4_500


def test_what_does_not_run_cannot_be_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remembered(tmp_path, state=state.DONE, ended_ms=9_000)
    assert main(["pipeline", "stop", "orders"]) == 1
    assert "is not running; its last run: done: 1,500 rows" in capsys.readouterr().err


def test_stop_ends_the_process_that_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = identity_of(child.pid)
        remembered(tmp_path, process=process)
        assert main(["pipeline", "stop", "orders"]) == 0
        assert child.wait() == -15
    assert "its process was killed" in capsys.readouterr().out


def test_a_word_that_means_no_pipeline_says_which_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remembered(tmp_path)
    for verb in ("status", "stop"):
        assert main(["pipeline", verb, "ordres"]) == 1
        assert "neither the name of a pipeline nor a directory with one; known are orders" in capsys.readouterr().err
