"""What is kept of runs: states, which process it was, where pipelines are, and the lock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.known import KnownPipeline, known_pipelines, remember
from tidelog.pipeline.declared.leftovers import leftovers
from tidelog.pipeline.declared.lock import PipelineHeld, PipelineLock
from tidelog.pipeline.declared.looking import NotKnown, all_runs, run_at, run_meant, stop_process
from tidelog.pipeline.declared.places import Places, latest_checkpoint, state_dir
from tidelog.pipeline.declared.process_identity import ProcessIdentity, identity_of, own_identity
from tidelog.pipeline.declared.state import FlowView, RunView, StateUnreadable, read_state, write_state


def view_at(storage: Path, **changes: object) -> RunView:
    view = RunView(
        pipeline="orders", spec=str(storage.parent / "spark-pipeline.yml"), storage=str(storage), mode="triggered", master="local[2]",
        process=own_identity(), state=state.RUNNING, started_ms=1_000, updated_ms=2_000, log=str(Places(storage).log),
        flows=(FlowView(name="a", target="out", rows=5, lag=3, progress=0.5),),
    )  # fmt: skip
    return replace(view, **changes)  # type: ignore[arg-type]


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    view = view_at(tmp_path)
    write_state(Places(tmp_path).state, view)
    write_state(Places(tmp_path).state, view)
    assert read_state(Places(tmp_path).state) == view
    assert [file.name for file in Places(tmp_path).ours.iterdir()] == ["state.json"]


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    found = json.loads(view_at(tmp_path).to_json())
    found["flows"][0]["colour"] = "red"
    assert state.state_of({**found, "weather": "fine"}) == view_at(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pipeline": "x"}', '{"process": 1, "flows": []}'])
def test_a_state_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    with pytest.raises(StateUnreadable, match="is not the state of a pipeline"):
        read_state(file)
    assert read_state(tmp_path / "none") is None


def test_a_process_is_known_by_more_than_its_number() -> None:
    own = own_identity()
    assert own.pid == os.getpid()
    assert own.is_alive()
    assert not replace(own, started_ticks=own.started_ticks - 1).is_alive()
    assert not replace(own, boot="another").is_alive()


def test_a_process_that_ended_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE) as child:
        child.wait()
        assert identity_of(child.pid) is None


def test_a_run_whose_process_is_no_more_has_died(tmp_path: Path) -> None:
    gone = replace(own_identity(), started_ticks=1)
    write_state(Places(tmp_path).state, view_at(tmp_path, process=gone))
    found = run_at(tmp_path)
    assert found is not None
    assert (found.state, found.is_under_way) == (state.DIED, False)
    write_state(Places(tmp_path).state, view_at(tmp_path, process=gone, state=state.DONE))
    ended = run_at(tmp_path)
    assert ended is not None
    assert ended.state == state.DONE


def test_another_process_with_the_same_number_is_never_signalled() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = identity_of(child.pid)
        assert found is not None
        assert stop_process(replace(found, started_ticks=found.started_ticks + 1), within_s=0.1)
        assert child.poll() is None
        assert stop_process(found, within_s=90)
        assert child.wait() == -signal.SIGTERM


def test_stopping_one_that_will_not_end_has_a_bound() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", stubborn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = identity_of(child.pid)
        assert found is not None
        assert not stop_process(found, within_s=0.05)
        child.kill()


def test_stopping_one_that_is_gone_is_fine() -> None:
    assert stop_process(ProcessIdentity(pid=2**22 - 1, started_ticks=1, boot="x"), within_s=0.1)


def test_pipelines_are_found_by_name_and_by_directory(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for number, name in enumerate(["orders", "clicks"]):
        storage = tmp_path / name / "storage"
        write_state(Places(storage).state, view_at(storage, pipeline=name, state=state.DONE, started_ms=number))
        (tmp_path / name / "spark-pipeline.yml").write_text(f"{{name: {name}, storage: storage}}")
        remember(state_dir(environment), KnownPipeline(name=name, spec=f"{tmp_path}/{name}/x", storage=str(storage)))
    assert [view.pipeline for view in all_runs(environment)] == ["clicks", "orders"]
    assert run_meant("orders", environment) == run_meant(str(tmp_path / "orders"), environment)
    with pytest.raises(NotKnown, match="known are clicks, orders"):
        run_meant("ordres", environment)


def test_two_pipelines_of_one_name_are_told_apart_by_directory(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for place in ("one", "two"):
        storage = tmp_path / place / "storage"
        write_state(Places(storage).state, view_at(storage))
        remember(state_dir(environment), KnownPipeline(name="orders", spec="x", storage=str(storage)))
    with pytest.raises(NotKnown, match="is the name of 2 pipelines; name the directory: "):
        run_meant("orders", environment)


def test_a_pipeline_that_never_ran_says_so(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("{name: fresh, storage: storage}")
    with pytest.raises(NotKnown, match="the pipeline fresh has not run yet"):
        run_meant(str(tmp_path), {"XDG_STATE_HOME": str(tmp_path / "state")})


def test_a_pipeline_whose_storage_is_gone_is_forgotten(tmp_path: Path) -> None:
    remember(tmp_path, KnownPipeline(name="a", spec="x", storage=str(tmp_path / "gone")))
    remember(tmp_path, KnownPipeline(name="b", spec="x", storage=str(tmp_path)))
    (tmp_path / "pipelines" / "zz.json").write_text("nonsense")
    assert [known.name for known in known_pipelines(tmp_path)] == ["b"]
    assert len(list((tmp_path / "pipelines").iterdir())) == 2


def test_only_one_run_holds_a_pipeline(tmp_path: Path) -> None:
    with PipelineLock.acquire(tmp_path / "ours" / "lock"), pytest.raises(PipelineHeld):
        PipelineLock.acquire(tmp_path / "ours" / "lock")
    PipelineLock.acquire(tmp_path / "ours" / "lock").release()


def test_the_last_checkpoint_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "none") == tmp_path / "none" / "0"
    for name in ("0", "2", "10", "staging"):
        (tmp_path / name).mkdir()
    assert latest_checkpoint(tmp_path) == tmp_path / "10"


def test_what_an_earlier_run_left_is_known_by_its_storage(tmp_path: Path) -> None:
    mark = f"spark.tidelog.storage={tmp_path}"
    command = [sys.executable, "-c", "print('up', flush=True); input()", mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"  # in the moment of its exec a process has no command line
        assert leftovers(tmp_path) == [child.pid]
        assert leftovers(tmp_path / "other") == []
        child.kill()
