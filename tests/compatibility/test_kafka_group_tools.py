"""Apache Kafka's own tools for groups, in Java, against Tidelog: what they print is what there is, and what `tidelog groups` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.cli.shell import Shell
from tests.cluster.waiting import eventually
from tests.compatibility.apache_kafka import ToolMissing, jars
from tests.compatibility.driven_members import DrivenMember
from tests.compatibility.drivers import Driver, java_driver, tools_driver
from tests.compatibility.group_facts import (
    PARTITIONS,
    committed,
    create_topic,
    is_shared,
    reset,
    send,
    wait_until_committed,
    wait_until_shared_and_read,
)
from tests.compatibility.processes import TidelogCluster

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]

GROUPS_TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS: Final = {
    "offsets": "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
    "group-metadata": "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
}
YEAR_2001_MS: Final = 978_307_200_000
YEAR_2002_MS: Final = 1_009_843_200_000
Row = dict[str, str]


class Tools(NamedTuple):
    """Kafka's tools, told where the cluster is."""

    driver: Driver
    bootstrap: str

    def __call__(self, tool: str, *words: str) -> list[str]:
        """The lines a tool writes. Raises ClientError when it fails."""
        return ["\t".join(fields) for fields in self.driver.ask(tool, "--bootstrap-server", self.bootstrap, *words)]

    def groups(self, *words: str) -> list[Row]:
        """The rows that `kafka-consumer-groups` prints."""
        return rows_of(self(GROUPS_TOOL, *words))


class Settled(NamedTuple):
    """A group of either protocol, both with two members of which one is static, and a group that is empty. All have read everything."""

    topic: str
    classic: str
    modern: str
    gone: str


def rows_of(lines: Sequence[str]) -> list[Row]:
    """The rows of Kafka's tables by heading, a dash for empty cells. Columns begin where their headings do."""
    rows: list[Row] = []
    starts: dict[str, int] = {}
    for line in lines:
        if line.startswith(("GROUP ", "TOPIC ")):
            starts = {found[0]: found.start() for found in re.finditer(r"\S+(?: \(ID\))?", line)}
        elif line and starts:
            ends = [*list(starts.values())[1:], len(line)]
            cells = zip(starts.items(), ends, strict=True)
            rows.append({heading: " ".join(line[start:end].split()) or "-" for (heading, start), end in cells})
    return rows


def as_kafka_says(rows: Sequence[Mapping[str, object]], headings: Mapping[str, str]) -> list[Row]:
    """Rows of our JSON with Kafka's headings, and a dash for what is not there."""

    def text(value: object) -> str:
        return "-" if value in {None, ""} else str(value)

    return [{heading: text(row[field]) for field, heading in headings.items()} for row in rows]


OFFSETS: Final = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "leader_epoch": "LEADER-EPOCH",
    "current_offset": "CURRENT-OFFSET",
    "log_end_offset": "LOG-END-OFFSET",
    "lag": "LAG",
    "consumer_id": "CONSUMER-ID",
    "host": "HOST",
    "client_id": "CLIENT-ID",
}
MEMBERS: Final = {
    "group": "GROUP",
    "consumer_id": "CONSUMER-ID",
    "group_instance_id": "GROUP-INSTANCE-ID",
    "host": "HOST",
    "client_id": "CLIENT-ID",
    "partition_count": "#PARTITIONS",
    "current_epoch": "CURRENT-EPOCH",
    "current_assignment": "CURRENT-ASSIGNMENT",
    "target_epoch": "TARGET-EPOCH",
    "target_assignment": "TARGET-ASSIGNMENT",
}
STATES: Final = {
    "group": "GROUP",
    "coordinator": "COORDINATOR (ID)",
    "assignment_strategy": "ASSIGNMENT-STRATEGY",
    "state": "STATE",
    "group_epoch": "GROUP-EPOCH",
    "target_assignment_epoch": "TARGET-ASSIGNMENT-EPOCH",
    "member_count": "#MEMBERS",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers that wait for nobody before a group's first generation."""
    properties = {"group.initial.rebalance.delay.ms": "0", "group.consumer.heartbeat.interval.ms": "1000"}
    properties["group.consumer.min.heartbeat.interval.ms"] = "1000"
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), properties) as running:
        yield running


@pytest.fixture(scope="module")
def tools(cluster: TidelogCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kafka's tools in one JVM."""
    try:
        driver = tools_driver(jars(), tmp_path_factory.mktemp("tools"))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with driver:
        yield Tools(driver, cluster.bootstrap)


@pytest.fixture(scope="module")
def settled(cluster: TidelogCluster, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settled]:
    """Groups whose members stay."""
    del tools  # what it skips, this skips
    topic, bootstrap = "settled", cluster.bootstrap
    create_topic(bootstrap, topic)
    sent = send(bootstrap, topic, 0)
    with ExitStack() as stack:
        java = stack.enter_context(java_driver(jars(), tmp_path_factory.mktemp("members"), bootstrap))
        for group_id, kind in (("classic", "range"), ("modern", "consumer")):
            members = [stack.enter_context(DrivenMember(java, kind, topic, group_id, name)) for name in (None, "one")]
            wait_until_shared_and_read(members, sent)
            wait_until_committed(bootstrap, topic, group_id, 25)
        with DrivenMember(java, "range", topic, "gone") as member:
            eventually(lambda: is_shared(member), "it owns everything")
            wait_until_committed(bootstrap, topic, "gone", 25)
        yield Settled(topic, "classic", "modern", "gone")


@pytest.fixture
def shell(cluster: TidelogCluster, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(cluster.bootstrap, capfdbinary, monkeypatch)


@pytest.fixture
def group(cluster: TidelogCluster, shell: Shell, topic: str) -> str:
    """A group without members at offset 2 of 3, in a topic with records of 2001, of 2002 and of now."""
    create_topic(cluster.bootstrap, topic)
    times: tuple[dict[str, int], ...] = ({"timestamp_ms": YEAR_2001_MS}, {"timestamp_ms": YEAR_2002_MS}, {})
    lines = "".join(json.dumps({"value": "x", **time}) + "\n" for time in times)
    for partition in PARTITIONS:
        shell.ok("produce", "-t", topic, "-p", str(partition), "-J", stdin=lines.encode())
    group_id = f"group-of-{topic}"
    reset(cluster.bootstrap, topic, group_id=group_id, to=2)
    return group_id


def ours(shell: Shell, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(shell.ok(*words, "--format", "json"))
    return rows


def test_kafka_lists_our_groups_with_state_and_type(tools: Tools, shell: Shell, settled: Settled) -> None:
    known = {row["group"]: row for row in ours(shell, "groups", "list")}
    assert {settled.classic, settled.modern, settled.gone} <= set(known)
    assert sorted(tools(GROUPS_TOOL, "--list")) == sorted(known)
    states = {row["GROUP"]: row["STATE"] for row in tools.groups("--list", "--state")}
    assert states == {name: row["state"] for name, row in known.items()}
    assert (states[settled.classic], states[settled.modern], states[settled.gone]) == ("Stable", "Stable", "Empty")
    types = {row["GROUP"]: row["TYPE"].lower() for row in tools.groups("--list", "--type")}
    assert types == {name: row["type"] for name, row in known.items()}
    assert [row["GROUP"] for row in tools.groups("--list", "--type", "consumer")] == [settled.modern]
    assert settled.gone in [row["GROUP"] for row in tools.groups("--list", "--state", "Empty,Dead")]
    stable = [row["GROUP"] for row in tools.groups("--list", "--state", "Stable")]
    assert sorted(stable) == [settled.classic, settled.modern]


def test_kafka_groups_lists_our_groups_with_their_protocol(tools: Tools, settled: Settled) -> None:
    listed = {row["GROUP"]: row for row in rows_of(tools("org.apache.kafka.tools.GroupsCommand", "--list"))}
    assert listed[settled.classic] == {"GROUP": settled.classic, "TYPE": "Classic", "PROTOCOL": "consumer"}
    assert listed[settled.modern] == {"GROUP": settled.modern, "TYPE": "Consumer", "PROTOCOL": "consumer"}
    words = ("--list", "--group-type", "consumer")
    assert [row["GROUP"] for row in rows_of(tools("org.apache.kafka.tools.GroupsCommand", *words))] == [settled.modern]


def test_kafka_describes_offsets_members_and_state_of_our_groups(tools: Tools, shell: Shell, settled: Settled) -> None:
    which = [word for group in (settled.classic, settled.modern, settled.gone) for word in ("--group", group)]
    mine = [word for word in which if word != "--group"]
    for what, headings in (("--offsets", OFFSETS), ("--members", MEMBERS), ("--state", STATES)):
        seen = tools.groups("--describe", what, "--verbose", *which)
        said = as_kafka_says(ours(shell, "groups", "describe", what, *mine), headings)
        assert sorted(seen, key=str) == sorted(said, key=str), what


def test_kafka_sees_who_owns_what(tools: Tools, settled: Settled) -> None:
    members = tools.groups("--describe", "--members", "--verbose", "--group", settled.modern)
    assert sorted(row["GROUP-INSTANCE-ID"] for row in members) == ["-", "one"]
    assert {row["CURRENT-ASSIGNMENT"] for row in members} == {f"{settled.topic}:0,1", f"{settled.topic}:2,3"}
    assert all(row["CURRENT-ASSIGNMENT"] == row["TARGET-ASSIGNMENT"] for row in members)
    assert len({(row["CURRENT-EPOCH"], row["TARGET-EPOCH"]) for row in members}) == 1
    offsets = tools.groups("--describe", "--group", settled.classic)
    headings = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    assert sorted(tuple(row[heading] for heading in headings) for row in offsets) == [
        (str(partition), "25", "25", "0") for partition in sorted(PARTITIONS)
    ]
    (state,) = tools.groups("--describe", "--state", "--group", settled.classic)
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == ("range", "Stable", "2")


RESETS: Final = {
    "to-earliest": (["--to-earliest"], 0),
    "to-latest": (["--to-latest"], 3),
    "to-current": (["--to-current"], 2),
    "to-offset": (["--to-offset", "1"], 1),
    "to-offset-beyond-the-end": (["--to-offset", "9"], 3),
    "shift-by": (["--shift-by", "-1"], 1),
    "by-duration": (["--by-duration", "PT1H"], 2),
    "to-datetime": (["--to-datetime", "2001-06-01T00:00:00.000"], 1),
}


@pytest.mark.parametrize(("words", "offset"), RESETS.values(), ids=list(RESETS))
def test_kafka_moves_the_offsets_of_our_groups(
    tools: Tools, shell: Shell, cluster: TidelogCluster, topic: str, group: str, words: list[str], offset: int
) -> None:
    wanted = [(group, topic, str(partition), str(offset)) for partition in sorted(PARTITIONS)]

    def plan(*more: str) -> list[tuple[str, ...]]:
        rows = tools.groups("--reset-offsets", "--group", group, "--topic", topic, *words, *more)
        return sorted((row["GROUP"], row["TOPIC"], row["PARTITION"], row["NEW-OFFSET"]) for row in rows)

    assert plan("--dry-run") == wanted
    rows = ours(shell, "groups", "reset", group, "--topic", topic, *words)
    assert [tuple(str(row[name]) for name in ("group", "topic", "partition", "new_offset")) for row in rows] == wanted
    assert set(committed(cluster.bootstrap, topic, group).values()) == {2}, "so far that was talk"
    assert plan("--execute") == wanted
    assert set(committed(cluster.bootstrap, topic, group).values()) == {offset}


def test_kafka_deletes_offsets_and_groups_that_nobody_uses(
    tools: Tools, shell: Shell, cluster: TidelogCluster, topic: str, group: str
) -> None:
    (deleted,) = tools.groups("--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    assert deleted == {"TOPIC": topic, "PARTITION": "1", "STATUS": "Successful"}
    assert sorted(row["partition"] for row in ours(shell, "groups", "describe", group)) == [0, 2, 3]
    said = tools(GROUPS_TOOL, "--delete", "--group", group)
    assert said == [f"Deletion of requested consumer groups ('{group}') was successful."]
    assert group not in tools(GROUPS_TOOL, "--list")
    assert set(committed(cluster.bootstrap, topic, group).values()) == {-1001}, "nothing is committed any more"


@pytest.mark.parametrize("name", ["classic", "modern"])
def test_kafka_is_refused_what_would_hurt_members(
    tools: Tools, cluster: TidelogCluster, settled: Settled, name: str
) -> None:
    said = "\n".join(tools(GROUPS_TOOL, "--delete", "--group", name))
    assert "GroupNotEmptyException" in said
    (row,) = tools.groups("--delete-offsets", "--group", name, "--topic", f"{settled.topic}:0")
    assert "GroupSubscribedToTopicException" in row["STATUS"]
    where = ("--group", name, "--topic", settled.topic)
    assert "is inactive" in "\n".join(tools(GROUPS_TOOL, "--reset-offsets", *where, "--to-earliest", "--execute"))
    assert set(committed(cluster.bootstrap, settled.topic, name).values()) == {25}


def test_kafka_hears_of_groups_that_are_not_there(tools: Tools) -> None:
    assert "GroupIdNotFoundException" in "\n".join(tools(GROUPS_TOOL, "--delete", "--group", "nobody"))
    for what in ("--offsets", "--members", "--state"):
        said = "\n".join(tools(GROUPS_TOOL, "--describe", what, "--group", "nobody"))
        assert "GroupIdNotFoundException: Group nobody not found." in said


# --- __consumer_offsets ---------------------------------------------------------------------------------------------------------------


def end_of(shell: Shell, partition: int) -> int:
    (described,) = ours(shell, "topics", "describe", "__consumer_offsets")
    return int(described["partitions"][partition]["log_end_offset"])


def compare_formatters(tools: Tools, shell: Shell, partition: int) -> dict[str, list[dict[str, Any]]]:
    """What both consoles print of a partition, which must be the same, as JSON by formatter."""
    printed = {}
    everything = (
        "--partition",
        str(partition),
        "--offset",
        "earliest",
        "--max-messages",
        str(end_of(shell, partition)),
    )
    for name, formatter in FORMATTERS.items():
        said = tools(CONSOLE, "--topic", "__consumer_offsets", "--formatter", formatter, *everything)
        lines = shell.ok("consume", "-t", "__consumer_offsets", "-p", str(partition), "--formatter", name, "-Je")
        assert "".join(said) == lines.decode().replace("\n", ""), "Kafka ends no lines, and prints the same otherwise"
        printed[name] = [json.loads(line) for line in lines.splitlines()]
    return printed


def partition_of(shell: Shell, group_id: str) -> int:
    (located,) = ours(shell, "groups", "locate", group_id)
    return int(located["partition"])


def test_kafka_finds_the_offsets_of_its_console_consumer_in_our_topic(tools: Tools, shell: Shell) -> None:
    topic, group_id = "tp_test_01", "console-consumer-49366"
    shell.ok("topics", "create", topic, "--partitions", "5")
    sent = [f"hello lagou {number}".encode() for number in range(100)]
    for index in range(5):
        shell.ok("produce", "-t", topic, "-p", str(index), stdin=b"\n".join(sent[index::5]))
    words = ("--topic", topic, "--group", group_id, "--from-beginning", "--max-messages", "100")
    assert sorted(tools(CONSOLE, *words)) == sorted(value.decode() for value in sent)
    assert partition_of(shell, group_id) == 19

    printed = compare_formatters(tools, shell, 19)

    last = {line["key"]["data"]["partition"]: line for line in printed["offsets"]}
    assert {index: line["value"]["data"]["offset"] for index, line in last.items()} == dict.fromkeys(range(5), 20)
    assert {line["key"]["data"]["group"] for line in printed["offsets"]} == {group_id}
    joined, *_, left = printed["group-metadata"]
    (member,) = joined["value"]["data"]["members"]
    assert (joined["key"], member["clientId"]) == ({"type": 2, "data": {"group": group_id}}, "console-consumer")
    assert left["value"]["data"]["members"] == []


def test_kafka_prints_the_records_of_our_groups_as_we_do(tools: Tools, shell: Shell, settled: Settled) -> None:
    classic = compare_formatters(tools, shell, partition_of(shell, settled.classic))
    assert {member["groupInstanceId"] for member in classic["group-metadata"][-1]["value"]["data"]["members"]} == {
        None,
        "one",
    }
    modern = compare_formatters(tools, shell, partition_of(shell, settled.modern))
    commits = [line for line in modern["offsets"] if line["key"]["data"]["group"] == settled.modern]
    last = {line["key"]["data"]["partition"]: line["value"]["data"]["offset"] for line in commits}
    assert last == dict.fromkeys(PARTITIONS, 25)


def dumped(tools: Tools, segment: Path) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Keys and values of a segment as `kafka-dump-log --offsets-decoder` reads them."""
    fields = tools.driver.ask("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    said = "\n".join("\t".join(each) for each in fields)
    assert "isvalid: false" not in said
    pairs = re.findall(r"key: (\{.*\}) payload: (.*)$", said, re.MULTILINE)
    return [(json.loads(key), None if value == "<DELETE>" else json.loads(value)) for key, value in pairs]


def test_kafka_dump_log_decodes_the_records_of_our_groups(
    tools: Tools, shell: Shell, cluster: TidelogCluster, settled: Settled
) -> None:
    types: dict[str, set[str]] = {}
    for name in (settled.classic, settled.modern, settled.gone):
        partition = partition_of(shell, name)
        segment = cluster.log_dir(1) / f"__consumer_offsets-{partition}" / f"{0:020}.log"
        eventually(lambda: len(dumped(tools, segment)) == end_of(shell, partition), "every replica has every record")  # noqa: B023
        records = [(key, value) for key, value in dumped(tools, segment) if name in key["data"].values()]
        types[name] = {key["type"] for key, value in records if value is not None}
        last = {
            key["data"]["partition"]: value["data"]["offset"] for key, value in records if key["type"] == "1" and value
        }
        assert last == dict.fromkeys(PARTITIONS, 25)
    assert types == {
        settled.classic: {"1", "2"},
        settled.gone: {"1", "2"},
        settled.modern: {"1", "3", "5", "6", "7", "8"},
    }
