"""The command line answers quickly, helps, and says what it did not understand."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest

from tidelog import __version__
from tidelog.cli.main import COMMANDS, main

HEAVY = ("asyncio", "uvloop", "kio", "cramjam", "tidelog.broker", "tidelog.client", "tidelog.wire")


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    return int(exited.value.code or 0)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"tidelog {__version__}\n"


def test_help_lists_every_command_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == 0
    said = capsys.readouterr().out
    assert all(f"  {command.name} " in said and command.summary in said for command in COMMANDS)
    assert "examples:" in said


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(command, "--help") == 0
    assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["up", "--no-such-option"], ["up", "--port", "x"]])
def test_what_is_not_understood_exits_2_and_says_so_on_stderr(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "try: tidelog" in captured.err


@pytest.mark.parametrize("words", [["up"], ["topics", "create", "x"], ["groups", "reset"]])
def test_an_unknown_option_points_to_the_help_of_its_own_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*words, "--no-such-option") == 2
    own = " ".join(words[:2])
    said = capsys.readouterr().err
    assert said.startswith(f"tidelog {own}: ")
    assert said.endswith(f"try: tidelog {own} --help\n")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([command.name, "--help"] for command in COMMANDS)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """What keeps `--help` under 300 ms, said without a stopwatch."""
    code = (
        "import sys\nfrom tidelog.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.timed
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["topics", "--help"]])
def test_a_simple_command_takes_no_longer_than_a_blink(words: list[str]) -> None:
    def took_ms() -> float:
        began_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tidelog", *words], capture_output=True, check=True)
        return (time.perf_counter() - began_s) * 1000

    assert statistics.median(took_ms() for _ in range(9)) < 150
