"""Compaction where it runs in production: on a real disk, in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.compacting import DIRECTORY, batch, bench_of
from tidelog.runtime.real_disk import RealDisk
from tidelog.storage.compaction import clean


@pytest.mark.slow
def test_child_process_writes_the_same_bytes(tmp_path: Path) -> None:
    bench = bench_of(
        [batch((b"a", b"1"), (b"b", b"2"))], [batch((b"a", None)), batch((b"c", b"4"), producer=(7, 0, 0))]
    )
    for name in bench.disk.listdir(DIRECTORY):
        (tmp_path / name).write_bytes(bench.disk.read(f"{DIRECTORY}/{name}"))
    plan = bench.plan()
    here = clean(bench.disk, plan)
    disk = RealDisk()
    try:
        there = disk.child().submit(clean, disk, replace(plan, directory=str(tmp_path))).result(timeout=240)
    finally:
        disk.close()
    assert there == here
    cleaned = [name for name in bench.disk.listdir(DIRECTORY) if name.endswith(".cleaned")]
    assert cleaned
    assert sorted(path.name for path in tmp_path.glob("*.cleaned")) == cleaned
    for name in cleaned:
        assert (tmp_path / name).read_bytes() == bench.disk.read(f"{DIRECTORY}/{name}")
