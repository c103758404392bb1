"""`tidelog up --brokers 3` as its user sees it: three processes, one line, records that outlive a broker."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, on_terminal
from tests.compatibility.processes import RunningProcess, TidelogProcess, TidelogUp, wait_until_gone
from tidelog.testing.ports import free_ports

pytestmark = pytest.mark.timed

UP = [sys.executable, "-m", "tidelog", "up", "--brokers", "3"]

Commands = Callable[[RunningProcess], Shell]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogUp]:
    with TidelogUp(tmp_path_factory.mktemp("cluster") / "data") as up:
        yield up


@pytest.fixture
def on(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """A shell for the commands of a cluster's user."""
    return lambda up: Shell(up.bootstrap, capfdbinary, monkeypatch)


def replicas(shell: Shell, topic: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(shell.ok("replicas", "-t", topic, "--format", "json"))
    return rows


def refused(*words: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a cluster that cannot start."""
    done = subprocess.run([*UP, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done


def test_the_first_line_names_three_brokers_and_each_is_a_process(cluster: TidelogUp) -> None:
    assert re.fullmatch(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){2}", cluster.bootstrap)
    assert sorted(cluster.pids) == [1, 2, 3]
    for number in (1, 2, 3):
        assert (cluster.data / f"broker-{number}" / "meta.properties").exists()
        assert (cluster.data / "logs" / f"broker-{number}.log").exists()


def test_records_are_on_three_brokers_of_which_two_must_be_in_sync(cluster: TidelogUp, on: Commands) -> None:
    shell = on(cluster)
    shell.ok("topics", "create", "orders", "--partitions", "2")
    shell.ok("produce", "-t", "orders", "-X", "acks=all", stdin=b"one\ntwo\n")
    assert sorted(shell.ok("consume", "-t", "orders", "-e").split()) == [b"one", b"two"]
    rows = replicas(shell, "orders")
    everywhere = [(partition, broker) for partition in (0, 1) for broker in (1, 2, 3)]
    assert sorted((row["partition"], row["broker"]) for row in rows) == everywhere
    assert sum(row["role"] == "leader" for row in rows) == 2
    configs = json.loads(shell.ok("configs", "describe", "topic", "orders", "--all", "--format", "json"))
    assert [each["value"] for each in configs if each["name"] == "min.insync.replicas"] == ["2"]


def test_every_command_knows_three_brokers(cluster: TidelogUp, on: Commands) -> None:
    shell = on(cluster)
    rows = json.loads(shell.ok("brokers", "list", "--format", "json"))
    assert [row["broker"] for row in rows] == [1, 2, 3]
    assert sum(row["is_controller"] for row in rows) == 1
    assert all(row["epoch"] is not None for row in rows)
    assert str(cluster.data / "broker-2").encode() in shell.ok("brokers", "describe", "2")
    shell("brokers", "describe", "9")
    assert shell.exit_code == 1
    assert "broker 9 is not there" in shell.errors
    shown = shell.ok("registry", "show", "/brokers/ids", "--data", str(cluster.data)).decode()
    assert [line.strip() for line in shown.splitlines()[1:]] == [f"/brokers/ids/{number}" for number in (1, 2, 3)]


def test_partitions_move_and_leaders_are_elected(cluster: TidelogUp, on: Commands) -> None:
    shell = on(cluster)
    shell.ok("topics", "create", "moving", "--replication-factor", "1", "--config", "min.insync.replicas=1")
    shell.ok("produce", "-t", "moving", stdin=b"here\n")
    [before] = replicas(shell, "moving")
    others = [number for number in (1, 2, 3) if number != before["broker"]]
    target = f"{others[0]},{others[1]}"
    said = shell.ok("topics", "reassign", "-t", "moving", "--to", target, "--wait").decode()
    assert f"moving moving-0 to {target}" in said
    assert shell.ok("topics", "reassign", "--list", "--format", "json") == b"[]\n"
    assert [row["broker"] for row in replicas(shell, "moving")] == others
    assert shell.ok("consume", "-t", "moving", "-e") == b"here\n"
    elected = json.loads(shell.ok("leaders", "elect", "-t", "moving:0", "--format", "json"))
    assert [row["result"] for row in elected] in (["elected"], ["led by it already"])
    shell("topics", "reassign", "-t", "moving:0", "--to", "77")
    assert shell.exit_code == 1
    assert "moving-0" in shell.errors


def test_a_leader_that_is_killed_is_back_and_nothing_is_lost(tmp_path: Path, on: Commands) -> None:
    with TidelogUp(tmp_path) as up:
        shell = on(up)
        shell.ok("topics", "create", "kept")
        shell.ok("produce", "-t", "kept", "-X", "acks=all", stdin=b"before\n")
        [leader] = [row["broker"] for row in replicas(shell, "kept") if row["role"] == "leader"]
        assert isinstance(leader, int)
        up.signal_broker(leader, signal.SIGKILL)
        up.wait_for(rf"broker {leader} died \(killed by SIGKILL\), starting it again in 2 s")
        shell.ok("produce", "-t", "kept", "-X", "acks=all", stdin=b"without it\n")
        up.wait_for_return(leader)
        assert shell.ok("consume", "-t", "kept", "-e") == b"before\nwithout it\n"
        assert sorted(up.pids) == [1, 2, 3]
        assert up.stop() == 0


def test_ctrl_c_leaves_no_process_and_no_complaint_and_the_data_is_there_the_next_time(
    tmp_path: Path, on: Commands
) -> None:
    with TidelogUp(tmp_path) as up:
        on(up).ok("produce", "-t", "kept", stdin=b"x\n")
        pids = list(up.pids.values())
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(6) == 0
        wait_until_gone(*pids)
    assert "controlled shutdown" not in up.output
    with TidelogUp(tmp_path) as up:
        assert on(up).ok("consume", "-t", "kept", "-e") == b"x\n"


def test_a_signal_to_the_whole_group_is_a_clean_stop_of_each(tmp_path: Path) -> None:
    command = [*UP, "--port", "0", "--data", str(tmp_path / "data")]
    with RunningProcess(["setsid", "-w", *command]) as group:
        group.wait_for("^ready")
        child = Path(f"/proc/{group.pid}/task/{group.pid}/children").read_text().split()[0]
        os.killpg(os.getpgid(int(child)), signal.SIGTERM)
        assert group.process.wait(60) == 0, group.output
    logs = [(tmp_path / "data" / "logs" / f"broker-{number}.log").read_text() for number in (1, 2, 3)]
    assert not any("second signal" in log for log in logs)


def test_the_death_of_the_parent_is_the_end_of_the_brokers(tmp_path: Path) -> None:
    with TidelogUp(tmp_path) as up:
        pids = list(up.pids.values())
        up.kill()
        wait_until_gone(*pids)


def test_a_second_cluster_on_the_same_data_is_told_who_has_it(cluster: TidelogUp) -> None:
    done = refused("--port", "0", "--data", str(cluster.data))
    assert done.returncode == 1
    assert f"held by process {cluster.pids[1]}: " in done.stderr


def test_a_taken_port_ends_the_start_of_all(tmp_path: Path) -> None:
    first, port = free_ports(2, in_a_row=True)
    with socket.create_server(("127.0.0.1", port)):
        done = refused("--port", str(first), "--data", str(tmp_path))
    assert done.returncode == 1
    assert f"broker 2: cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "before all brokers were ready" in done.stderr


def test_a_wrong_setting_is_told_once(tmp_path: Path) -> None:
    done = refused("--data", str(tmp_path), "-X", "num.partition=3")
    assert done.returncode == 2
    assert done.stderr.count("did you mean num.partitions?") == 1


def test_an_ephemeral_cluster_leaves_nothing_behind(tmp_path: Path) -> None:
    with RunningProcess([*UP, "--port", "0", "--ephemeral"], environment={"TMPDIR": str(tmp_path)}) as up:
        up.wait_for("^ready bootstrap=")
        assert len(list(tmp_path.glob("tidelog-*/broker-*"))) == 3
        assert up.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_one_broker_can_become_three(tmp_path: Path, on: Commands) -> None:
    with TidelogProcess(tmp_path) as one:
        on(one).ok("produce", "-t", "old", stdin=b"from the first\n")
    with TidelogUp(tmp_path) as up:
        shell = on(up)
        assert shell.ok("consume", "-t", "old", "-e") == b"from the first\n"
        shell.ok("topics", "reassign", "-t", "old", "--to", "1,2,3", "--wait")
        assert [row["broker"] for row in replicas(shell, "old")] == [1, 2, 3]


def test_replicas_are_watched_on_a_terminal_until_ctrl_c(cluster: TidelogUp, on: Commands) -> None:
    on(cluster).ok("topics", "create", "watched")
    command = [sys.executable, "-m", "tidelog", "replicas", "-b", cluster.bootstrap, "-t", "watched", "--watch"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while said.count(b"\x1b[H\x1b[J") < 3:
            said += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    os.close(ours)
    assert said.count(b"CAUGHT-UP") >= 2  # under its short name, where a terminal is narrow
    assert said.count(b"leader") >= 2


def test_a_terminal_is_told_where_things_are_and_what_to_try(tmp_path: Path) -> None:
    said = on_terminal([*UP, "--port", "0", "--data", str(tmp_path)])
    assert str(tmp_path / "logs" / "broker-N.log") in said
    assert "3 replicas, acks=all needs 2 of them" in said
    assert f"{sys.executable} -m tidelog replicas -b 127.0.0.1:" in said
