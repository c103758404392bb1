"""`tidelog groups` and `tidelog consume -g` against a running broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import RunningProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def group(topic: str) -> str:
    return f"readers-of-{topic}"


@pytest.fixture
def filled(shell: Shell, topic: str) -> str:
    """A topic with three records in each of its two partitions, of the years 2001, 2002 and 2003."""
    shell.ok("topics", "create", topic, "--partitions", "2")
    for partition in ("0", "1"):
        lines = "".join(
            json.dumps({"value": f"{partition}-{year}", "timestamp_ms": stamp}) + "\n"
            for year, stamp in ((2001, 978_307_200_000), (2002, 1_009_843_200_000), (2003, 1_041_379_200_000))
        )
        shell.ok("produce", "-t", topic, "-p", partition, "-J", stdin=lines.encode())
    return topic


@contextmanager
def member(bootstrap: str, topic: str, group: str, *options: str) -> Iterator[RunningProcess]:
    """A process that reads as a member, until the block ends."""
    command = [sys.executable, "-m", "tidelog", "consume", "-b", bootstrap, "-t", topic, "-g", group, *options]
    with RunningProcess(command) as process:
        yield process
        process.process.send_signal(signal.SIGINT)
        process.process.wait(90)


def described(shell: Shell, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(shell.ok("groups", "describe", *words, "--format", "json"))
    return rows


def offsets(shell: Shell, group: str) -> dict[int, int]:
    return {row["partition"]: row["current_offset"] for row in described(shell, group)}


def test_a_group_goes_on_where_the_last_of_its_members_stopped(shell: Shell, filled: str, group: str) -> None:
    first = shell.ok("consume", "-t", filled, "-g", group, "-c", "4")
    second = shell.ok("consume", "-t", filled, "-g", group, "-e")
    assert len(first.splitlines()) == 4
    assert sorted(first.splitlines() + second.splitlines()) == [
        b"%d-%d" % (partition, year) for partition in (0, 1) for year in (2001, 2002, 2003)
    ]
    assert shell.ok("consume", "-t", filled, "-g", group, "-e") == b""
    assert offsets(shell, group) == {0: 3, 1: 3}


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_nobody_took_is_not_committed(
    shell: Shell, bootstrap: str, topic: str, group: str, unbuffered: str
) -> None:
    """As with `| head -n 1`: a poll brings far more than a pipe holds, so most of it is never printed."""
    shell.ok("topics", "create", topic)
    lines = [b"%04d " % number + b"x" * 1_000 for number in range(1_500)]
    shell.ok("produce", "-t", topic, stdin=b"\n".join(lines))
    command = [sys.executable, "-m", "tidelog", "consume", "-b", bootstrap, "-t", topic, "-g", group]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == lines[0] + b"\n"
        process.stdout.close()
        process.wait(90)
    assert shell.ok("consume", "-t", topic, "-g", group, "-e").splitlines() == lines


def test_a_group_that_starts_at_the_end_prints_nothing_old(shell: Shell, filled: str, group: str) -> None:
    assert shell.ok("consume", "-t", filled, "-g", group, "-o", "end", "-e") == b""
    assert offsets(shell, group) == {0: 3, 1: 3}


def test_members_are_shown_with_what_they_have(shell: Shell, bootstrap: str, filled: str, group: str) -> None:
    with member(bootstrap, filled, group) as process:
        process.wait_for(r"^1-2003$")
        assert b"Stable" in shell.ok("groups", "list", "--state", "stable")
        (row,) = described(shell, group, "--members")
        assert (row["partition_count"], row["current_assignment"]) == (2, f"{filled}:0,1")
        (state,) = described(shell, group, "--state")
        assert (state["state"], state["member_count"]) == ("Stable", 1)
        heads = shell.ok("groups", "describe", group).decode().splitlines()[0].split()
        assert heads == [
            "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "VISIBLE-LAG", "CONSUMER-ID",
            "HOST", "CLIENT-ID",
        ]  # fmt: skip
        rows = described(shell, group)
        assert [(each["partition"], each["log_end_offset"], each["client_id"]) for each in rows] == [
            (0, 3, "tidelog-cli"),
            (1, 3, "tidelog-cli"),
        ]
        heads = shell.ok("groups", "describe", group, "--members", "--verbose").decode().splitlines()[0].split()
        assert heads == [
            "GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "CURRENT-EPOCH", "CURRENT-ASSIGNMENT",
            "TARGET-EPOCH", "TARGET-ASSIGNMENT",
        ]  # fmt: skip


def test_members_of_the_new_protocol_are_shown_too(shell: Shell, bootstrap: str, filled: str, group: str) -> None:
    with member(bootstrap, filled, group, "-X", "group.protocol=consumer") as process:
        process.wait_for(r"^1-2003$")
        (state,) = described(shell, group, "--state")
        assert (state["type"], state["assignment_strategy"], state["member_count"]) == ("consumer", "uniform", 1)
        assert state["group_epoch"] == state["target_assignment_epoch"]
        (row,) = described(shell, group, "--members")
        assert row["current_assignment"] == row["target_assignment"] == f"{filled}:0,1"
        assert group.encode() in shell.ok("groups", "list", "--type", "consumer")
        assert group.encode() not in shell.ok("groups", "list", "--type", "classic")


def test_an_active_group_is_neither_moved_nor_deleted(shell: Shell, bootstrap: str, filled: str, group: str) -> None:
    with member(bootstrap, filled, group) as process:
        process.wait_for(r"^1-2003$")
        shell("groups", "reset", group, "--topic", filled, "--to-earliest", "--execute")
        assert shell.exit_code == 1
        assert "is active (Stable, 1 member): stop its members first" in shell.errors
        shell("groups", "delete", group)
        assert shell.exit_code == 1
        assert "NON_EMPTY_GROUP: it has members" in shell.errors
        shell("groups", "delete", group, "--topic", f"{filled}:0")
        assert shell.exit_code == 1
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in shell.errors
    assert offsets(shell, group) == {0: 3, 1: 3}  # Ctrl-C made the member commit what it had printed


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_reset_shows_its_plan_and_changes_nothing_until_it_is_told_to(
    shell: Shell, filled: str, group: str, words: tuple[str, ...]
) -> None:
    shell.ok("consume", "-t", filled, "-g", group, "-e")
    plan = shell.ok("groups", "reset", group, "--topic", filled, "--to-earliest", *words).decode().splitlines()
    assert plan[0].split() == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"]
    assert [line.split()[2:] for line in plan[1:]] == [["0", "3", "0"], ["1", "3", "0"]]
    assert "nothing was changed" in shell.errors
    assert offsets(shell, group) == {0: 3, 1: 3}
    shell.ok("groups", "reset", group, "--topic", filled, "--to-earliest", "--execute")
    assert offsets(shell, group) == {0: 0, 1: 0}
    assert len(shell.ok("consume", "-t", filled, "-g", group, "-e").splitlines()) == 6


def test_a_reset_reaches_every_kind_of_place(shell: Shell, filled: str, group: str) -> None:
    def reset(*words: str) -> dict[int, int]:
        shell.ok("groups", "reset", group, *words, "--execute")
        return offsets(shell, group)

    # A group that is not there yet may be given offsets to start from.
    assert reset("--topic", filled, "--to-offset", "2") == {0: 2, 1: 2}
    assert reset("--topic", f"{filled}:1", "--shift-by", "-1") == {0: 2, 1: 1}
    assert reset("--all-topics", "--to-datetime", "2002-01-01T00:00:00") == {0: 1, 1: 1}
    assert reset("--all-topics", "--to-datetime", "2002-01-01T00:00:00.001Z") == {0: 2, 1: 2}
    assert reset("--all-topics", "--by-duration", "PT1H") == {0: 3, 1: 3}
    assert reset("--topic", f"{filled}:0,1", "--to-latest") == {0: 3, 1: 3}
    assert reset("--all-topics", "--shift-by", "-99") == {0: 0, 1: 0}
    assert reset("--topic", f"{filled}:0", "--to-offset", "99") == {0: 3, 1: 0}


def test_an_offset_out_of_range_is_warned_of(shell: Shell, filled: str, group: str) -> None:
    shell.ok("groups", "reset", group, "--topic", f"{filled}:0", "--to-offset", "99", "--execute")
    assert f"warning: {filled}:0: 99 is beyond the end of the log; taking 3" in shell.errors


def test_offsets_are_saved_and_come_back(shell: Shell, filled: str, group: str, tmp_path: Path) -> None:
    shell.ok("groups", "reset", group, "--topic", filled, "--to-offset", "1", "--execute")
    saved = shell.ok("groups", "reset", group, "--all-topics", "--to-current", "--export")
    assert saved.decode() == f"{filled},0,1\n{filled},1,1\n"
    (tmp_path / "saved.csv").write_bytes(saved)
    shell.ok("groups", "reset", group, "--all-topics", "--to-latest", "--execute")
    shell.ok("groups", "reset", group, "--from-file", str(tmp_path / "saved.csv"), "--execute")
    assert offsets(shell, group) == {0: 1, 1: 1}


def test_offsets_are_deleted_for_a_topic_or_with_the_group(shell: Shell, filled: str, group: str) -> None:
    shell.ok("groups", "reset", group, "--topic", filled, "--to-latest", "--execute")
    assert shell.ok("groups", "delete", group, "--topic", f"{filled}:0") == (
        f"deleted the offset of {group} in {filled}:0\n".encode()
    )
    assert offsets(shell, group) == {1: 3}
    assert shell.ok("groups", "delete", group) == f"deleted {group}\n".encode()
    shell("groups", "describe", group)
    assert (shell.exit_code, shell.errors) == (1, f"tidelog groups: group {group!r} does not exist\n")
    shell("groups", "delete", group)
    assert shell.exit_code == 1
    assert "GROUP_ID_NOT_FOUND: there is no such group" in shell.errors


def test_what_a_deleted_topic_left_behind_does_not_hinder(shell: Shell, filled: str, group: str) -> None:
    shell.ok("topics", "create", f"{filled}-gone")
    for topic in (filled, f"{filled}-gone"):
        shell.ok("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    shell.ok("topics", "delete", f"{filled}-gone")
    rows = described(shell, group)
    assert [(row["partition"], row["lag"]) for row in rows if row["topic"] == filled] == [(0, 0), (1, 0)]
    assert {(row["log_end_offset"], row["lag"]) for row in rows if row["topic"] != filled} <= {(None, None)}


def test_the_tab_key_knows_groups(shell: Shell, filled: str, group: str) -> None:
    shell.ok("groups", "reset", group, "--topic", filled, "--to-latest", "--execute")
    assert shell.ok("completion", "bash", "--line", f"tidelog groups describe {group[:-2]}") == f"{group}\n".encode()


def test_a_group_is_located_by_the_formula_that_every_client_uses(shell: Shell) -> None:
    rows = json.loads(shell.ok("groups", "locate", "console-consumer-49366", "group1", "--format", "json"))
    assert [(row["group"], row["partition"], row["formula"], row["coordinator"]) for row in rows] == [
        ("console-consumer-49366", 19, "abs(161434669) % 50 = 19", 1),
        ("group1", 40, "abs(-1237460590) % 50 = 40", 1),
    ]
    assert all((row["replicas"], row["isr"]) == ([1], [1]) for row in rows)
    assert rows[0]["address"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["groups", "describe"], "name groups, or say --all"),
        (["groups", "describe", "g", "--all"], "name groups, or say --all"),
        (["groups", "reset", "g", "--to-earliest"], "which topics?"),
        (["groups", "reset", "g", "--topic", "t"], "one of the arguments"),
        (["groups", "reset", "g", "--from-file", "/no/such/file"], "--from-file"),
        (["groups", "reset", "g", "--topic", "t:x", "--to-latest"], "is not of the form"),
        (["consume", "-t", "t", "-g", "g", "-p", "0"], "share all partitions"),
        (["consume", "-t", "t", "-g", "g", "-o", "5"], "tidelog groups reset"),
    ],
)
def test_what_makes_no_sense_is_refused_as_such(shell: Shell, words: list[str], reason: str) -> None:
    shell(*words)
    assert shell.exit_code == 2
    assert reason in shell.errors


def test_a_reset_of_what_is_not_there_says_so(shell: Shell, group: str) -> None:
    shell("groups", "reset", group, "--topic", "no-such-topic", "--to-latest")
    assert shell.exit_code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in shell.errors
    shell("groups", "reset", group, "--all-topics", "--to-latest")
    assert shell.exit_code == 1
    assert "has committed nothing" in shell.errors
