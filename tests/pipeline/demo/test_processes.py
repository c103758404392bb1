"""Programs of the demo: what they say, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import wait_until_gone
from tests.pipeline.demo.stories import story
from tidelog.pipeline.demo.processes import Program, kill, session_members

pytestmark = pytest.mark.slow

SAYS = "import sys; print('one'); print('two', file=sys.stderr)"
STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=lambda: os.setpgid(0, 0))
print("ready", child.pid, flush=True)
time.sleep(600)
"""
LEAVES_A_CHILD = """\
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
"""


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@story
async def test_what_a_program_says_is_heard_in_lines() -> None:
    program = await Program.start(python(SAYS))
    heard = [line async for line in program.lines()]
    assert sorted(heard) == ["one", "two"]
    assert await program.ended() == 0
    assert sorted(program.last_lines) == ["one", "two"]
    program.close()


@story
async def test_a_log_takes_what_is_said_on_stderr(tmp_path: Path) -> None:
    for _ in range(2):
        program = await Program.start(python(SAYS), log=tmp_path / "log")
        assert [line async for line in program.lines()] == ["one"]
        await program.ended()
        program.close()
    assert (tmp_path / "log").read_text() == "two\ntwo\n"


@story
async def test_a_stubborn_program_is_ended_with_all_it_started() -> None:
    program = await Program.start(python(STUBBORN))
    line = await anext(program.lines())
    child = int(line.split()[1])
    assert {member.pid for member in program.members()} == {program.pid, child}
    await program.stop(within_s=0.2)
    assert program.members() == []
    assert await program.ended() == -signal.SIGKILL
    wait_until_gone(child)


@story
async def test_what_a_program_leaves_behind_is_ended_with_it() -> None:
    program = await Program.start(python(LEAVES_A_CHILD))
    child = int(await anext(program.lines()))
    assert await program.ended() == 0
    assert [member.pid for member in program.members()] == [child]
    await program.stop(within_s=0.2)
    wait_until_gone(child)


@story
async def test_the_end_of_a_program_is_known_while_its_children_hold_its_output() -> None:
    program = await Program.start(python(LEAVES_A_CHILD))
    await anext(program.lines())
    async with asyncio.timeout(20):
        assert await program.ended() == 0
    await program.stop(within_s=0.2)


def test_a_program_dies_with_whoever_started_it() -> None:
    text = (
        "import asyncio, os, signal, sys\n"
        "from tidelog.pipeline.demo.processes import Program\n"
        "async def main():\n"
        "    program = await Program.start([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    print(program.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(python(text), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    wait_until_gone(int(done.stdout))


def test_a_process_is_told_of_with_its_name_and_command() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        [found] = eventually(lambda: [each for each in session_members(process.pid) if each.name == "sleep"], "it runs")
        assert (found.pid, found.parent, found.command) == (process.pid, os.getpid(), ("sleep", "600"))
        assert kill(found.pid)
    assert session_members(process.pid) == []
    assert not kill(process.pid)
