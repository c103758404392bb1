"""`tidelog up --brokers 3` as its user sees it: three processes, one line, records that outlive a broker."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.processes import RunningProcess, TidelogProcess, TidelogUp, wait_until_gone

pytestmark = pytest.mark.slow

UP = [sys.executable, "-m", "tidelog", "up", "--brokers", "3"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogUp]:
    with TidelogUp(tmp_path_factory.mktemp("cluster") / "data") as up:
        yield up


def tidelog(up: RunningProcess, *words: str, stdin: str = "", exit_code: int = 0) -> str:
    """What a command says when it is asked of a cluster."""
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": up.bootstrap}
    command = [sys.executable, "-m", "tidelog", *words]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=30, check=False, env=environment
    )
    assert done.returncode == exit_code, done.stderr
    return done.stdout + done.stderr if exit_code else done.stdout


def replicas(up: RunningProcess, topic: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(tidelog(up, "replicas", "-t", topic, "--format", "json"))
    return rows


def test_the_first_line_names_three_brokers_and_each_is_a_process(cluster: TidelogUp) -> None:
    assert re.fullmatch(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){2}", cluster.bootstrap)
    assert sorted(cluster.pids) == [1, 2, 3]
    for number in (1, 2, 3):
        assert (cluster.data / f"broker-{number}" / "meta.properties").exists()
        assert (cluster.data / "logs" / f"broker-{number}.log").exists()


def test_records_are_on_three_brokers(cluster: TidelogUp) -> None:
    tidelog(cluster, "topics", "create", "orders", "--partitions", "2")
    tidelog(cluster, "produce", "-t", "orders", "-X", "acks=all", stdin="one\ntwo\n")
    assert sorted(tidelog(cluster, "consume", "-t", "orders", "-e").split()) == ["one", "two"]
    rows = replicas(cluster, "orders")
    assert sorted((row["partition"], row["broker"]) for row in rows) == [
        (partition, broker) for partition in (0, 1) for broker in (1, 2, 3)
    ]
    assert sum(row["role"] == "leader" for row in rows) == 2
    [entry] = [
        each
        for each in json.loads(tidelog(cluster, "configs", "describe", "topic", "orders", "--all", "--format", "json"))
        if each["name"] == "min.insync.replicas"
    ]
    assert entry["value"] == "2"


def test_every_command_knows_three_brokers(cluster: TidelogUp) -> None:
    rows = json.loads(tidelog(cluster, "brokers", "list", "--format", "json"))
    assert [row["broker"] for row in rows] == [1, 2, 3]
    assert sum(row["is_controller"] for row in rows) == 1
    assert all(row["epoch"] is not None for row in rows)

    assert str(cluster.data / "broker-2") in tidelog(cluster, "brokers", "describe", "2")
    assert "broker 9 is not there" in tidelog(cluster, "brokers", "describe", "9", exit_code=1)
    shown = tidelog(cluster, "registry", "show", "/brokers/ids", "--data", str(cluster.data))
    assert [line.strip() for line in shown.splitlines()[1:]] == [f"/brokers/ids/{number}" for number in (1, 2, 3)]


def test_partitions_move_and_leaders_are_elected(cluster: TidelogUp) -> None:
    tidelog(cluster, "topics", "create", "moving", "--replication-factor", "1", "--config", "min.insync.replicas=1")
    tidelog(cluster, "produce", "-t", "moving", stdin="here\n")
    [before] = replicas(cluster, "moving")
    others = [number for number in (1, 2, 3) if number != before["broker"]]
    target = f"{others[0]},{others[1]}"
    said = tidelog(cluster, "topics", "reassign", "-t", "moving", "--to", target, "--wait")
    assert f"moving moving-0 to {target}" in said
    assert tidelog(cluster, "topics", "reassign", "--list", "--format", "json") == "[]\n"
    assert [row["broker"] for row in replicas(cluster, "moving")] == others
    assert tidelog(cluster, "consume", "-t", "moving", "-e") == "here\n"
    elected = json.loads(tidelog(cluster, "leaders", "elect", "-t", "moving:0", "--format", "json"))
    assert [row["result"] for row in elected] in (["elected"], ["led by it already"])
    refused = tidelog(cluster, "topics", "reassign", "-t", "moving:0", "--to", "77", exit_code=1)
    assert "moving-0" in refused


def test_a_broker_that_is_killed_is_back_and_nothing_is_lost(tmp_path: Path) -> None:
    with TidelogUp(tmp_path) as up:
        tidelog(up, "topics", "create", "kept")
        tidelog(up, "produce", "-t", "kept", "-X", "acks=all", stdin="before\n")
        [leader] = [row["broker"] for row in replicas(up, "kept") if row["role"] == "leader"]
        assert isinstance(leader, int)
        up.signal_broker(leader, signal.SIGKILL)
        up.wait_for(rf"broker {leader} died \(killed by SIGKILL\), starting it again in 2 s")
        tidelog(up, "produce", "-t", "kept", "-X", "acks=all", stdin="without it\n")
        up.wait_for_return(leader)
        assert tidelog(up, "consume", "-t", "kept", "-e") == "before\nwithout it\n"
        assert sorted(up.pids) == [1, 2, 3]
        assert up.stop() == 0


def test_ctrl_c_leaves_no_process_and_the_data_is_there_the_next_time(tmp_path: Path) -> None:
    with TidelogUp(tmp_path) as up:
        tidelog(up, "produce", "-t", "kept", stdin="x\n")
        pids = list(up.pids.values())
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(6) == 0
        wait_until_gone(*pids)
    with TidelogUp(tmp_path) as up:
        assert tidelog(up, "consume", "-t", "kept", "-e") == "x\n"


def test_the_death_of_the_parent_is_the_end_of_the_brokers(tmp_path: Path) -> None:
    with TidelogUp(tmp_path) as up:
        pids = list(up.pids.values())
        up.kill()
        wait_until_gone(*pids)


def test_a_second_cluster_on_the_same_data_is_told_who_has_it(cluster: TidelogUp) -> None:
    done = subprocess.run(
        [*UP, "--port", "0", "--data", str(cluster.data)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"held by process {cluster.pids[1]}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_ends_the_start_of_all(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*UP, "--port", str(port - 1), "--data", str(tmp_path)],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"broker 2: cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "before all brokers were ready" in done.stderr


def test_a_wrong_setting_is_told_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [*UP, "--data", str(tmp_path), "-X", "num.partition=3"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("did you mean num.partitions?") == 1


def test_an_ephemeral_cluster_leaves_nothing_behind(tmp_path: Path) -> None:
    with RunningProcess([*UP, "--port", "0", "--ephemeral"], environment={"TMPDIR": str(tmp_path)}) as up:
        up.wait_for("^ready bootstrap=")
        assert len(list(tmp_path.glob("tidelog-*/broker-*"))) == 3
        assert up.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_one_broker_can_become_three(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as one:
        tidelog(one, "produce", "-t", "old", stdin="from the first\n")
    with TidelogUp(tmp_path) as up:
        assert tidelog(up, "consume", "-t", "old", "-e") == "from the first\n"
        tidelog(up, "topics", "reassign", "-t", "old", "--to", "1,2,3", "--wait")
        assert [row["broker"] for row in replicas(up, "old")] == [1, 2, 3]
