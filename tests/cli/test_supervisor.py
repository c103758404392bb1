"""The parent of several brokers, with children that do nothing but live and die."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.compatibility.processes import RunningProcess, wait_until_gone
from tidelog.cli.supervisor import described

pytestmark = pytest.mark.timed


def supervised(*words: str) -> RunningProcess:
    return RunningProcess([sys.executable, "-m", "tests.cli.supervised", *words])


def pid_of(parent: RunningProcess, broker_id: int) -> int:
    return int(parent.wait_for(rf"^broker {broker_id}: pid (\d+)")[1])


def children_of(parent: RunningProcess) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]


def test_one_line_says_that_all_are_ready_and_a_signal_ends_all() -> None:
    with supervised("serve", "serve", "serve") as parent:
        assert parent.wait_for("^ready bootstrap=(.*)$")[1] == "h:1,h:2,h:3"
        children = children_of(parent)
        assert len(children) == 3
        assert parent.stop() == 0
        wait_until_gone(*children)


def test_children_are_called_by_the_name_of_their_broker() -> None:
    with supervised("serve", "serve") as parent:
        parent.wait_for("^ready")
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in children_of(parent)]
        assert sorted(names) == ["child-1", "child-2"]


def test_a_child_that_was_killed_is_started_again_with_its_address() -> None:
    with supervised("serve", "serve") as parent:
        killed = pid_of(parent, 2)
        parent.wait_for("^ready")
        os.kill(killed, signal.SIGKILL)
        parent.wait_for(r"^tidelog: broker 2 died \(killed by SIGKILL\), starting it again in 2 s$")
        parent.wait_for(r"^tidelog: broker 2 serves again at h:2 \(process \d+\)$")
        assert len(children_of(parent)) == 2
        assert parent.stop() == 0


def test_without_restarts_it_goes_on_with_the_others_and_ends_when_nobody_is_left() -> None:
    with supervised("serve", "serve", "--no-restart") as parent:
        parent.wait_for("^ready")
        for pid in children_of(parent):
            os.kill(pid, signal.SIGKILL)
            parent.wait_for(r"^tidelog: broker \d died \(killed by SIGKILL\) and is not started again$")
        assert parent.process.wait(5) == 1


@pytest.mark.parametrize(("word", "code", "saying"), [("refuse", 2, "the port is taken"), ("break", 1, "ZeroDivision")])
def test_one_that_cannot_start_ends_all_with_its_reason_and_exit_code(word: str, code: int, saying: str) -> None:
    with supervised("serve", word, "serve") as parent:
        parent.wait_for(f"^broker 2: .*{saying}")
        parent.wait_for("before all brokers were ready")
        assert parent.process.wait(5) == code


def test_a_child_that_does_not_hear_is_ended_after_a_while_or_by_a_second_signal() -> None:
    with supervised("serve", "stay") as parent:
        stubborn = pid_of(parent, 2)
        parent.wait_for("^ready")
        parent.process.send_signal(signal.SIGINT)
        parent.process.send_signal(signal.SIGTERM)
        parent.wait_for("second signal")
        assert parent.process.wait(2) == 1
        wait_until_gone(stubborn)


def test_a_stopped_child_leaves_when_all_do() -> None:
    with supervised("serve", "serve") as parent:
        stopped = pid_of(parent, 1)
        parent.wait_for("^ready")
        os.kill(stopped, signal.SIGSTOP)
        assert parent.stop() == 0
        wait_until_gone(stopped)


def test_children_die_with_a_parent_that_is_killed() -> None:
    with supervised("serve", "stay", "serve") as parent:
        parent.wait_for("^ready")
        children = children_of(parent)
        parent.kill()
        wait_until_gone(*children)


def test_ctrl_c_reaches_the_whole_group_and_is_heard_once() -> None:
    with RunningProcess(["setsid", "-w", sys.executable, "-m", "tests.cli.supervised", "serve", "serve"]) as group:
        first = pid_of(group, 1)
        group.wait_for("^ready")
        os.killpg(os.getpgid(first), signal.SIGINT)
        assert group.process.wait(5) == 0
        assert "second signal" not in group.output


def test_deaths_are_told_by_their_cause() -> None:
    assert described(0) == "stopped"
    assert described(3) == "died (exit code 3)"
    assert described(-9) == "died (killed by SIGKILL)"
    assert described(-200) == "died (killed by signal 200)"
