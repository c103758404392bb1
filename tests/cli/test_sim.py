"""`tidelog sim` as a person uses it: run, soak, plan, faults, and what it says to wrong words."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.clusters import kills
from tidelog.cli.main import main
from tidelog.cli.sim import seeds_of
from tidelog.cli.sim_soak import Bar
from tidelog.simulation import SimulatedClock
from tidelog.simulation.faults import FaultPlan
from tidelog.simulation.soak import Summary

BREAKING = ("--truncation", "high-watermark")
BREAKS = 1  # a seed that loses records with it
SHRINKS = 2  # a seed that does so within three seconds, and is small soon
HURTS = 3  # a seed whose faults act early

pytestmark = kills


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        code = main(["sim", *words])
    except SystemExit as exited:
        code = int(exited.code or 0)
    assert code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seeds"), [("1..3", range(1, 4)), ("7", range(7, 8)), ("0..0", range(1)), ("5..5", range(5, 6))]
)
def test_seeds_are_both_ends_or_one(text: str, seeds: range) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "a..b", "3..1", "1...3", "1..", "..4", "-1..4", "1..99999999", "1-4", "1.5"])
def test_wrong_seeds_are_refused_with_an_example(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "soak", f"--seeds={text}")
    assert repr(text) in said
    assert "try: tidelog sim soak --help" in said


def test_a_plan_that_cannot_be_read_or_understood_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--faults missing.json: No such file or directory" in refused(capsys, "run", "--faults", "missing.json")
    Path("wrong.json").write_text('{"faults": [{"at_ms": 1, "kind": "earthquake"}]}')
    said = refused(capsys, "run", "--faults", "wrong.json")
    assert said.startswith('tidelog: --faults wrong.json: kind of fault 1 is "earthquake", accepted is one of kill, ')
    Path("binary").write_bytes(b"\xff\xfe")
    assert "--faults binary: not a text in UTF-8" in refused(capsys, "soak", "--seeds", "1", "--faults", "binary")


def test_faults_after_the_end_of_the_load_are_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    Path("late.json").write_text('{"faults": [{"at_ms": 25000, "kind": "kill-all", "for_ms": 1}]}')
    said = refused(capsys, "run", "--faults", "late.json")
    assert "the last fault comes at 25000 ms, after the 20 s of load; use --seconds 26" in said


def test_traces_go_into_a_directory_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--traces nowhere: not a directory" in refused(capsys, "soak", "--seeds", "1", "--traces", "nowhere")


def test_the_plan_of_a_seed_can_be_printed_and_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "plan", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert FaultPlan.from_json(printed).to_json() == printed
    assert main(["sim", "plan", "--seed", "4"]) == 0
    assert capsys.readouterr().out != printed


def test_the_menu_of_faults_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "faults"]) == 0
    assert "power-cut: the machine goes dark" in capsys.readouterr().out


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def summed_up(*, trials: int) -> Summary:
    return Summary(trials=trials, simulated_ms=trials * 30_000.0, violations={"I3": [2]} if trials > 1 else {})


def test_a_bar_grows_on_a_terminal_and_is_taken_away() -> None:
    clock, out = SimulatedClock(), Terminal()
    bar = Bar(total=10, jobs=2, clock=clock, out=out)
    clock.advance_ms(30_000)
    bar.show(summed_up(trials=5))
    assert out.getvalue() == (
        "\r\x1b[K[###############...............] 5 of 10 seeds, 1 violations, 2.5 simulated s/s, 0:00:30 left"
    )
    bar.say("something happened")
    bar.end()
    assert out.getvalue().endswith("\r\x1b[Ksomething happened\n\r\x1b[K")


def test_where_nobody_looks_a_line_a_minute_is_enough() -> None:
    clock, out = SimulatedClock(), io.StringIO()
    bar = Bar(total=10, jobs=1, clock=clock, out=out)
    for trials in range(5):
        bar.show(summed_up(trials=trials))
        clock.advance_ms(25_000)
    assert [line.partition(",")[0] for line in out.getvalue().splitlines()] == ["1 of 10 seeds", "4 of 10 seeds"]


@pytest.mark.slow
def test_a_run_tells_its_phases_doses_digest_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seed", str(HURTS), "--seconds", "4", "--trace", "it.trace"]) == 0
    said = capsys.readouterr()
    assert "load and faults" in said.err
    assert re.search(r"^all +\d+ +[1-9]", said.out, re.MULTILINE)
    digest = re.search(r"^digest (\S+ \S+ \S+)$", said.out, re.MULTILINE)
    assert digest
    assert f"seed {HURTS} is fine\nthe whole trace is in it.trace\n" in said.out
    lines = Path("it.trace").read_text().splitlines()
    assert lines[:4] == [
        f"# seed {HURTS}, 4 s of load, truncation by leader-epoch",
        f"# repeat: tidelog sim run --seed {HURTS} --seconds 4",
        f"# verdict: seed {HURTS} is fine",
        f"# digest: {digest[1]}",
    ]
    assert any("fault begins" in line for line in lines)


@pytest.mark.proof
def test_a_violation_is_told_saved_and_shrunk_to_a_plan_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seed", str(SHRINKS), "--seconds", "3", *BREAKING, "--format", "json", "-q"]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    shown = json.loads(said.out)
    assert re.match(r"I\d+ ", shown["violation"]["checker"])
    assert Path(shown["trace_file"]).read_text().startswith(f"# seed {SHRINKS}, 3 s of load, truncation by high-")
    shrunk = shown["shrunk"]
    assert len(shrunk["plan"]["faults"]) < len(shown["plan"]["faults"])
    assert shrunk["violation"]["checker"] == shown["violation"]["checker"]
    program, *words = shrunk["command"].split()
    assert program == "tidelog"
    assert main([*words, "--no-shrink"]) == 1
    again = capsys.readouterr().out
    assert shrunk["violation"]["sentence"] in again
    assert shrunk["digest"] in again


@pytest.mark.proof
def test_a_soak_sums_up_and_finds_nothing_with_leader_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "soak", "--seeds", f"{BREAKS}..{HURTS}", "--seconds", "5", "--jobs", "2"]
    assert main([*words, "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["seeds_run"] == 3
    assert shown["violations"] == []
    assert shown["acknowledged"] > 100
    assert shown["doses"][-1]["injected"] > 0
    assert shown["simulated_s"] > 15


@pytest.mark.proof
def test_a_soak_finds_what_truncation_by_high_watermark_loses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "soak", "--seeds", f"{BREAKS}..1000", *BREAKING, "--jobs", "2", "--stop-at-first"]) == 1
    said = capsys.readouterr()
    assert re.search(r"^seeds run +\d of 1,000$", said.out, re.MULTILINE)
    assert re.search(r"^CHECKER +VIOLATIONS +FIRST-SEED +SEEDS$", said.out, re.MULTILINE)
    (seed,) = re.findall(r"^look closer: tidelog sim run --seed (\d+) --truncation high-watermark$", said.out, re.M)
    trace = Path(f"tidelog-sim-{seed}-high-watermark.trace")
    assert f"the trace is in {trace}" in said.err
    assert f"# verdict: seed {seed} VIOLATES I" in trace.read_text()


@pytest.mark.slow
@pytest.mark.proof
def test_ctrl_c_ends_a_soak_with_the_summary_so_far() -> None:
    command = [sys.executable, "-m", "tidelog", "sim", "soak", "--seeds", "1..1000", "--jobs", "1", "--seconds", "1"]
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from tidelog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, *command[3:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "1 of 1000 seeds" in process.stderr.readline()
        process.send_signal(2)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert re.search(r"^seeds run +[1-9]\d* of 1,000$", out, re.MULTILINE)
