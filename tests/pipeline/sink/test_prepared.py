"""Names of prepared transactions, and the manifests that list them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.client import PreparedTransaction
from tidelog.pipeline.sink.prepared import (
    CANDIDATES_MAX,
    BrokenManifest,
    Manifest,
    Manifests,
    is_task_id,
    task_ids,
)

PREPARED = tuple(
    PreparedTransaction(transactional_id=f"orders-1-{number}-0.0", producer_id=number, producer_epoch=3)
    for number in range(3)
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint" / "sink-manifest"


def manifest(decision_id: str = "7-a", sink_id: str = "orders") -> Manifest:
    return Manifest(sink_id=sink_id, decision_id=decision_id, prepared=PREPARED)


def test_ids_of_a_sink_are_bounded_in_number() -> None:
    made = {
        each
        for run in range(600)
        for attempt in range(0, 3_000, 500)
        for each in task_ids("orders", run=run, partition=0, attempt=attempt)
    }
    assert len(made) == 256 * 2 * CANDIDATES_MAX
    assert all(is_task_id(each, "orders") for each in made)


def test_attempts_of_a_run_have_ids_of_their_own() -> None:
    made = [
        each
        for run in range(3)
        for partition in range(12)
        for attempt in range(12)
        for each in task_ids("orders", run=run, partition=partition, attempt=attempt)
    ]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "sink_id", ["orders", "orders-1", "orders-1-2", "orders-eu", "orders-", "orders-1-2-3.0", "o.*"]
)
@pytest.mark.parametrize("other", ["orders", "orders-1", "orders-1-2", "orders-eu", "orders-", "orders-1-2-3.0", "o.*"])
def test_a_sink_never_takes_the_ids_of_another_for_its_own(sink_id: str, other: str) -> None:
    (theirs, *_) = task_ids(other, run=1, partition=2, attempt=3)
    assert is_task_id(theirs, sink_id) is (sink_id == other)


@pytest.mark.parametrize("text", ["orders", "orders-", "orders-1-2-3", "orders-1-2-x.0", "orders-1-2-3.0-4", ""])
def test_other_ids_are_not_those_of_tasks(text: str) -> None:
    assert not is_task_id(text, "orders")


def test_manifests_are_found_again_until_they_are_removed(directory: Path) -> None:
    manifests = Manifests(directory, "orders")
    assert manifests.read_all() == []
    for decision_id in ("8-b", "7-a"):
        manifests.write(manifest(decision_id))
    assert Manifests(directory, "orders").read_all() == [manifest("7-a"), manifest("8-b")]
    for _ in range(2):
        manifests.remove("7-a")
    assert manifests.read_all() == [manifest("8-b")]
    assert [path.name for path in directory.iterdir()] == ["8-b.json"]


def test_a_manifest_remembers_that_it_was_decided(directory: Path) -> None:
    manifests = Manifests(directory, "orders")
    manifests.write(manifest())
    for _ in range(2):
        manifests.confirm("7-a")
    assert [(each.decision_id, each.is_decided) for each in manifests.read_all()] == [("7-a", True)]
    manifests.remove("7-a")
    manifests.confirm("7-a")
    assert list(directory.iterdir()) == []


def test_a_manifest_is_found_also_while_its_owner_notes_the_decision(directory: Path) -> None:
    class Interrupted(Manifests):
        def _read(self, path: Path) -> Manifest | None:
            owner.confirm("7-a")
            return super()._read(path)

    owner = Manifests(directory, "orders")
    owner.write(manifest("7-a"))
    assert Interrupted(directory, "orders").read_all() == [replace(manifest("7-a"), is_decided=True)]


def test_a_decision_that_is_noted_when_all_is_carried_out_leaves_nothing_behind(directory: Path) -> None:
    owner = Manifests(directory, "orders")
    owner.write(manifest("7-a"))
    owner.remove("7-a")
    owner.confirm("7-a")
    assert list(directory.iterdir()) == []


def test_a_draft_that_a_crash_left_is_no_manifest(directory: Path) -> None:
    manifests = Manifests(directory, "orders")
    manifests.write(manifest("8-b"))
    (directory / "9-c.tmp").write_text('{"version": 1, "sink')
    assert manifests.read_all() == [manifest("8-b")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2}',
        json.dumps({"version": 1, "sink_id": "o", "decision_id": "7-a", "prepared": ["x"]}),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_by_its_name(directory: Path, text: str) -> None:
    directory.mkdir(parents=True)
    (directory / "7-a.json").write_text(text)
    with pytest.raises(BrokenManifest, match=r"sink-manifest/7-a\.json is no manifest"):
        Manifests(directory, "orders").read_all()


def test_a_manifest_of_another_sink_is_refused(directory: Path) -> None:
    Manifests(directory, "orders").write(manifest())
    with pytest.raises(BrokenManifest, match=r"of sink 'orders', not of 'totals'.*sink\.id"):
        Manifests(directory, "totals").read_all()


def test_a_full_disk_leaves_no_manifest(directory: Path) -> None:
    directory.parent.mkdir(parents=True)
    directory.write_text("a file where a directory should be")
    with pytest.raises(OSError, match="sink-manifest"):
        Manifests(directory, "orders").write(manifest())
