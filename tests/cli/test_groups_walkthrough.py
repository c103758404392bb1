"""A hundred records, a group, and the way to its offsets in `__consumer_offsets`, step by step on a cluster of three processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import TidelogUp

pytestmark = pytest.mark.slow

TOPIC = "tp_test_01"
GROUP = "console-consumer-49366"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogUp]:
    with TidelogUp(tmp_path_factory.mktemp("walk") / "data") as up:
        yield up


@pytest.fixture
def shell(cluster: TidelogUp, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(cluster.bootstrap, capfdbinary, monkeypatch)


def printed(shell: Shell, partition: int, formatter: str) -> list[dict[str, Any]]:
    words = ["consume", "-t", "__consumer_offsets", "-p", str(partition), "--formatter", formatter, "-J", "-e"]
    return [json.loads(line) for line in shell.ok(*words).splitlines()]


def test_the_offsets_of_a_group_are_found_in_its_partition(shell: Shell) -> None:
    shell.ok("topics", "create", TOPIC, "--partitions", "5", "--replication-factor", "3")
    for partition in range(5):
        lines = "".join(f"hello lagou {number}\n" for number in range(partition, 100, 5))
        shell.ok("produce", "-t", TOPIC, "-p", str(partition), stdin=lines.encode())
    (described,) = json.loads(shell.ok("topics", "describe", TOPIC, "--format", "json"))
    assert [row["log_end_offset"] for row in described["partitions"]] == [20] * 5

    # A console consumer of this group reads everything, and commits when it leaves.
    assert len(shell.ok("consume", "-t", TOPIC, "-g", GROUP, "-e").splitlines()) == 100
    assert GROUP in [row["group"] for row in json.loads(shell.ok("groups", "list", "--format", "json"))]

    # Math.abs("console-consumer-49366".hashCode()) % 50 = 19
    (located,) = json.loads(shell.ok("groups", "locate", GROUP, "--format", "json"))
    assert (located["partition"], located["formula"]) == (19, "abs(161434669) % 50 = 19")
    assert located["coordinator"] == located["replicas"][0]
    assert (len(located["replicas"]), sorted(located["isr"])) == (3, [1, 2, 3])

    # Each commit is a record; the last one of each partition counts.
    commits = [line for line in printed(shell, 19, "offsets") if line["value"] is not None]
    last = {(line["key"]["data"]["topic"], line["key"]["data"]["partition"]): line for line in commits}
    assert sorted(last) == [(TOPIC, partition) for partition in range(5)]
    assert {line["key"]["data"]["group"] for line in last.values()} == {GROUP}
    assert [line["value"]["data"]["offset"] for line in last.values()] == [20] * 5
    assert {(line["key"]["type"], line["value"]["version"]) for line in commits} == {(1, 4)}
    (empty,) = printed(shell, 19, "group-metadata")[-1:]
    assert (empty["key"], empty["value"]["data"]["members"]) == ({"type": 2, "data": {"group": GROUP}}, [])
    assert printed(shell, 18, "offsets") == []

    # And as people read it: [Group, Topic, Partition]::[OffsetMetadata[Offset, Metadata], CommitTime, ExpirationTime]
    said = shell.ok("consume", "-t", "__consumer_offsets", "-p", "19", "--formatter", "offsets", "-e").decode()
    shape = re.compile(
        rf"\[{GROUP},{TOPIC},([0-4])]::\[OffsetMetadata\[20,NO_METADATA],CommitTime [0-9]+,ExpirationTime _]"
    )
    shown = [found[1] for line in said.splitlines()[-5:] if (found := shape.fullmatch(line))]
    assert sorted(shown) == ["0", "1", "2", "3", "4"]

    rows = json.loads(shell.ok("groups", "describe", GROUP, "--format", "json"))
    assert [(row["partition"], row["current_offset"], row["log_end_offset"], row["lag"]) for row in rows] == [
        (partition, 20, 20, 0) for partition in range(5)
    ]
