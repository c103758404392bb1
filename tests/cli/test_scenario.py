"""`tidelog scenario`: list, show and play, those that come with it and one's own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.shell import on_terminal
from tests.simulation.clusters import kills
from tests.tidy.measure import ROOT
from tidelog.cli.main import main

pytestmark = kills

STORY = """\
One record
A record is produced and consumed.

cluster A
topic t on A
produce t m0
----
> m0 acknowledged at offset 0
broker  role    LEO  HW  records
A       leader    1   1  m0

Notice: it is committed at once, since nobody else must have it.

A consumer sees it.

consume t
----
> consumed m0

The end.
"""


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "mine.txt"
    path.write_text(STORY)
    return path


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names == sorted(path.stem for path in (ROOT / "tests" / "scenarios").glob("*.txt"))


def test_list_tells_programs_what_each_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["name"] and row["title"] and row["summary"] for row in rows)


def test_show_prints_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "show", "loss_by_high_watermark"]) == 0
    assert capsys.readouterr().out == (ROOT / "tests" / "scenarios" / "loss_by_high_watermark.txt").read_text()


@pytest.mark.slow
def test_play_tells_a_story_step_by_step(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "play", str(story)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "One record",
        "A record is produced and consumed.",
        "",
        "step 1 of 2",
        "  $ cluster A",
        "  $ topic t on A",
        "  $ produce t m0",
        "  > m0 acknowledged at offset 0",
        "  broker  role    LEO  HW  remote  epochs  ISR  records",
        "  A       leader    1   1  -       0@0     in   m0",
        "  * A  topic created topic=t",
        "  * A  became leader partition=t-0 leader_epoch=0 isr=A",
        "",
        "Notice: it is committed at once, since nobody else must have it.",
        "",
        "A consumer sees it.",
        "",
        "step 2 of 2",
        "  $ consume t",
        "  > consumed m0",
        "  broker  role    LEO  HW  remote  epochs  ISR  records",
        "  A       leader    1   1  -       0@0     in   m0",
        "",
        "The end.",
        "it went as written",
    ]


@pytest.mark.slow
def test_play_for_programs(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "play", str(story), "--format", "json", "--seed", "7"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_as_written"] is True
    first, second = told["steps"]
    assert first["commands"] == ["cluster A", "topic t on A", "produce t m0"]
    assert first["replicas"] == [
        {"broker": "A", "role": "leader", "leo": 1, "hw": 1, "lso": 1, "remote": None, "epochs": "0@0", "isr": "in", "records": "m0"}
    ]  # fmt: skip
    assert second["results"] == ["consumed m0"]


@pytest.mark.slow
@pytest.mark.parametrize("output_format", ["table", "json"])
def test_what_does_not_go_as_written_exits_with_1(
    story: Path, capsys: pytest.CaptureFixture[str], output_format: str
) -> None:
    story.write_text(STORY.replace("leader    1   1", "leader    1   9"))
    assert main(["scenario", "play", str(story), "--format", output_format]) == 1
    out = capsys.readouterr().out
    assert f"{story}:4: HW of A is 1, not 9" in out
    assert "as written" in out or json.loads(out)["is_as_written"] is False
    assert "consumed" not in out.replace("produced and consumed", ""), "later steps mean nothing"


@pytest.mark.slow
def test_events_that_are_written_must_happen(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.write_text(STORY.replace("> consumed m0", "> consumed m0\n* A  killed"))
    assert main(["scenario", "play", str(story)]) == 1
    assert f"{story}:16: other events happened than are written" in capsys.readouterr().out


@pytest.mark.slow
def test_step_waits_for_enter_and_ends_with_the_input(
    story: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert main(["scenario", "play", str(story), "--step"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("Enter goes on") == 1
    assert "it went as written" in captured.out
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["scenario", "play", str(story), "--step"]) == 130


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "los_by_high_watermark"], "there is no scenario los_by_high_watermark; did you mean loss_by_high_"),
        (["play", "./nowhere.txt"], "there is no file ./nowhere.txt"),
        (["play", "zzz"], "there is no scenario zzz; `tidelog scenario list` shows all"),
    ],
)
def test_what_is_not_there_is_said(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_wrong_command_is_said_with_file_and_line(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.write_text(STORY.replace("consume t", "consum t"))
    assert main(["scenario", "play", str(story)]) == 2
    assert f"{story}:16: there is no command 'consum'; did you mean consume?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_terminal_gets_colours_and_a_pipe_does_not(story: Path) -> None:
    command = [sys.executable, "-m", "tidelog", "scenario", "play", str(story)]
    assert "\x1b[" in on_terminal(command, until="as written")
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b[" not in piped.stdout
    assert piped.stderr == ""


@pytest.mark.slow
def test_the_wheel_brings_every_scenario(tmp_path: Path) -> None:
    building = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*building, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("tidelog/scenarios/")}
    assert packed == {f"tidelog/scenarios/{path.name}" for path in (ROOT / "tests" / "scenarios").glob("*.txt")}
