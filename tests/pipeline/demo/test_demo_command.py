"""`tidelog demo` as a person types it: wrong words, missing Spark, the table of a proof; and that it loads nothing large for that."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.cli.demo import master_of
from tidelog.cli.demo_exactly_once import proof_rows, sentence
from tidelog.cli.main import main
from tidelog.pipeline.demo.counting import Verdict
from tidelog.pipeline.demo.exactly_once import Proof
from tidelog.pipeline.demo.kills import Victim

EXACT = Proof(
    seed=7,
    commit_mode="batch",
    master="local[2,4]",
    kills={Victim.BROKER: 3, Victim.EXECUTOR: 2, Victim.COMMITTER: 1, Victim.DRIVER: 1},
    drivers_started=3,
    load_s=61.25,
    total_s=99.0,
    verdict=Verdict(
        records_in=12_345,
        records_out=12_345,
        lost=0,
        duplicated=0,
        misjudged=0,
        windows=60,
        windows_missing=0,
        windows_duplicated=0,
        windows_wrong=0,
        open_transactions=0,
    ),
)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    try:
        code = main(["demo", *words])
    except SystemExit as exited:
        code = int(exited.code or 0)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["shop", "--brokers", "0"], "'0' is not a number of brokers (1 to 9)"),
        (["shop", "--rate", "many"], "'many' is not a number of orders a second (1 to 20000)"),
        (["shop", "--seconds", "-1"], "'-1' is not a number of seconds"),
        (["shop", "--port", "70000"], "'70000' is not a port (0 to 65535)"),
        (["shop", "--format", "xml"], "invalid choice: 'xml'"),
        (["shop", "--master", "yarn"], "'yarn' is no Spark master: local[2]"),
        (["exactly-once", "--mode", "task"], "invalid choice: 'task'"),
        (["exactly-once", "--seed", "x"], "'x' is not a seed"),
        (["exactly-once", "--brokers", "3"], "unrecognized arguments: --brokers 3"),
        (["party"], "invalid choice: 'party'"),
        ([], "required"),
    ],
)
def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str], words: list[str], complaint: str) -> None:
    code, errors = said(capsys, *words)
    assert code == 2
    assert complaint in errors
    assert "--help" in errors


@pytest.mark.parametrize(
    "text", ["local", "local[2]", "local[*]", "local[2,4]", "local-cluster[2,1,1024]", "spark://h:7077"]
)
def test_masters_that_can_run_it(text: str) -> None:
    assert master_of(text) == text


@pytest.mark.parametrize(
    "text", ["", "local[", "local[2", "local[a]", "local-cluster[2]", "spark://h", "k8s://h:1", "mesos://h:1"]
)
def test_masters_that_cannot(text: str) -> None:
    with pytest.raises(ValueError, match="is no Spark master"):
        master_of(text)


@pytest.mark.parametrize("verb", ["shop", "exactly-once"])
def test_without_spark_one_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    code, errors = said(capsys, verb)
    assert code == 1
    assert errors.count("\n") == 1
    assert errors.endswith("missing): pip install 'tidelog[spark]'\n")


def test_a_proof_wants_a_directory_of_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "something").write_text("")
    code, errors = said(capsys, "exactly-once", "--data", str(tmp_path))
    assert code == 2
    assert f"--data {tmp_path}: not empty" in errors


def test_help_and_wrong_words_load_nothing_large() -> None:
    text = (
        "import sys\nfrom tidelog.cli.main import main\n"
        "try:\n    main(['demo', 'shop', '--brokers', 'x'])\nexcept SystemExit:\n    pass\n"
        "large = {'pyspark', 'pyarrow', 'numba', 'pandas', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {large}' if large else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_table_of_a_proof() -> None:
    rows = {str(row["what"]): row["count"] for row in proof_rows(EXACT)}
    assert {name: rows[name] for name in ("records in", "records out", "lost", "duplicated")} == {
        "records in": "12,345",
        "records out": "12,345",
        "lost": "0",
        "duplicated": "0",
    }
    assert (rows["kills: broker"], rows["kills: executor"], rows["kills: driver"]) == ("3", "2", "1")
    assert rows["seconds of orders"] == "61.2"


def test_the_sentence_of_a_proof_that_holds_and_of_one_that_does_not() -> None:
    assert sentence(EXACT) == "every order is reflected exactly once, after 7 kills (seed 7)"
    doubled = replace(EXACT, commit_mode="at-least-once", verdict=replace(EXACT.verdict, duplicated=9))
    assert sentence(doubled, "--seconds", "40.0", "--master", "local[2,4]") == (
        "NOT exactly once: 9 duplicated; the same kills again: "
        "tidelog demo exactly-once --seed 7 --mode at-least-once --seconds 40.0 --master 'local[2,4]'"
    )


def test_the_sentence_of_a_proof_names_every_fault() -> None:
    faults = replace(EXACT.verdict, windows_missing=15, open_transactions=1)
    told = sentence(replace(EXACT, verdict=faults))
    assert told.startswith("NOT exactly once: 15 windows missing, 1 transactions left open; ")


def test_a_proof_is_json_with_its_verdict() -> None:
    content = json.loads(json.dumps(EXACT.to_json()))
    assert content["is_exact"] is True
    assert content["kills"]["broker"] == 3
    assert content["verdict"]["lost"] == 0
