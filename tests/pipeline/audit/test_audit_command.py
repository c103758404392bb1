"""`tidelog audit`: what it prints, how it exits, and what it refuses before Spark is started."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.audit.planted import Planted, batch, flipped, log_of, marker, run
from tidelog.cli.main import main
from tidelog.pipeline.audit.claims import read_claims
from tidelog.pipeline.audit.findings import Check
from tidelog.pipeline.audit.running import AuditPlan, BeingWritten, audit, check_unchanged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

SOUND = log_of(run(6))
FORKED = SOUND.with_batches([*run(5), batch(25, text="other")])


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    made = Planted(tmp_path / "data")
    made.add("orders", SOUND)
    return made


def exit_code(*arguments: str) -> int:
    try:
        return main(["audit", *arguments])
    except SystemExit as exited:
        return int(exited.code or 0)


class TestOnSpark:
    """On the session of the tests."""

    def test_the_first_difference_of_each_partition_is_a_row_and_the_exit_code_1(
        self, spark: SparkSession, planted: Planted, capsys: pytest.CaptureFixture[str]
    ) -> None:
        planted.add("orders", SOUND, SOUND, FORKED, partition=1)
        planted.add("other", SOUND.with_batches([flipped(b"".join(run(6)), 90)]), SOUND)
        planted.write()
        assert exit_code("--data", *map(str, map(planted.path, planted.brokers))) == 1
        heading, forked, damaged, looked_at, verdict = capsys.readouterr().out.splitlines()
        assert heading.split() == ["PARTITION", "CHECK", "REPLICA", "OFFSET", "POSITION", "MORE", "FILE", "WHAT"]
        assert forked.split()[:6] == ["orders-1", "replicas", "3", "25", str(5 * len(run(1)[0])), "0"]
        assert damaged.split()[:6] == ["other-0", "checksum", "1", "0", "0", "1"]
        assert looked_at.startswith("3 partitions, 9 replicas on broker 1, 2, 3: 54 batches")
        assert verdict == "3 findings in 2 places"

    def test_sound_replicas_exit_with_0_and_programs_get_everything(
        self, spark: SparkSession, planted: Planted, capsys: pytest.CaptureFixture[str]
    ) -> None:
        planted.add("other", SOUND, FORKED)
        planted.write()
        assert exit_code("--data", str(planted.root), "--topic", "orders", "--replicas", "3", "--format", "json") == 0
        said = capsys.readouterr()
        content = json.loads(said.out)
        assert (content["is_sound"], content["findings"], content["notes"]) == (True, [], [])
        (partition,) = content["partitions"]
        assert (partition["compared_from"], partition["compared_to"]) == (0, 30)
        assert [each["log_end_offset"] for each in partition["replicas"]] == [30, 30, 30]
        assert content["batches"] == 18
        assert said.err == ""

    def test_of_brokers_at_work_only_what_is_below_the_high_watermark_counts(
        self, spark: SparkSession, planted: Planted
    ) -> None:
        tail = [*run(4), *run(1, first=20, text="tail"), b"half a batch"]
        planted.add(
            "tail", replace(SOUND, high_watermark=20), replace(log_of(run(4)).with_batches(tail), high_watermark=20)
        )
        planted.add("unknown", replace(SOUND, high_watermark=None), replace(FORKED, high_watermark=None))
        decided = [batch(0, producer=(5, 0, 0), is_transactional=True), marker(5, (5, 0))]
        planted.add("decided-above", log_of(decided, high_watermark=5))
        planted.add("below", SOUND, SOUND, SOUND.with_batches([flipped(b"".join(run(6)), 90)]))
        planted.write()
        report = audit(spark, AuditPlan(directories=(str(planted.root),), is_live=True))
        assert {(each.topic, each.check) for each in report.findings} == {
            ("below", Check.CHECKSUM),
            ("below", Check.REPLICAS),
        }


class TestGrowth:
    """Where a lock cannot be seen."""

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [(b"more" * 1000, r"had \d+ bytes and has 4000 now: a broker works there"), (None, "was deleted")],
    )
    def test_files_that_change_are_noticed(self, planted: Planted, content: bytes | None, sentence: str) -> None:
        claims = read_claims(planted.write(), None)
        check_unchanged(claims.logs)
        segment = planted.path(2) / "orders-0" / "00000000000000000000.log"
        segment.unlink()
        if content is not None:
            segment.write_bytes(content)
        with pytest.raises(BeingWritten, match=sentence):
            check_unchanged(claims.logs)


class TestRefusals:
    """Exit code 2, one sentence, and Spark is not even started."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ([], "the following arguments are required: --data"),
            (["--data", "/no/such/place"], "--data /no/such/place: there is no such directory"),
            (["--data", "DATA", "--topic", "nobody"], "topic nobody: no log of it is in"),
            (["--data", "DATA", "DATA/broker-1"], "broker-1: given twice"),
            (["--data", "DATA/broker-1/orders-0"], "this is the log of one partition"),
            (["--data", "DATA", "--replicas", "none"], "'none' is not a number of replicas"),
            (["--data", "DATA", "--master", "yarn"], "'yarn' is no Spark master"),
        ],
    )
    def test_what_makes_no_sense(
        self, planted: Planted, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
    ) -> None:
        planted.write()
        assert exit_code(*(word.replace("DATA", str(planted.root)) for word in arguments)) == 2
        assert sentence in capsys.readouterr().err

    def test_directories_without_a_log(self, planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
        planted.logs = {1: {}}
        planted.write()
        assert exit_code("--data", str(planted.root)) == 2
        assert "there is no log of any partition to audit" in capsys.readouterr().err

    def test_a_broker_at_work(self, planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
        planted.write()
        with (planted.path(2) / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert exit_code("--data", str(planted.root)) == 2
        said = capsys.readouterr().err
        assert f"a broker is at work in it (process {os.getpid()}" in said
        assert "add --live" in said
