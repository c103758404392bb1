"""Topics and settings that are changed while a broker runs."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def test_a_topic_gets_more_partitions_and_other_settings(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic)
    assert (
        shell.ok("topics", "alter", topic, "--partitions", "3", "-c", "retention.ms=1000")
        == f"altered {topic}\n".encode()
    )
    [described] = json.loads(shell.ok("topics", "describe", topic, "--format", "json"))
    assert len(described["partitions"]) == 3
    [row] = json.loads(shell.ok("configs", "describe", "topic", topic, "--format", "json"))
    assert (row["name"], row["value"], row["source"]) == ("retention.ms", "1000", "topic")
    shell.ok("topics", "alter", topic, "--delete-config", "retention.ms")
    assert json.loads(shell.ok("configs", "describe", "topic", topic, "--format", "json")) == []


def test_a_dry_run_changes_nothing(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic)
    shell.ok("topics", "alter", topic, "--partitions", "3", "-c", "retention.ms=1000", "--dry-run")
    [described] = json.loads(shell.ok("topics", "describe", topic, "--format", "json"))
    assert len(described["partitions"]) == 1
    assert json.loads(shell.ok("configs", "describe", "topic", topic, "--format", "json")) == []


def test_settings_are_set_and_unset(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic)
    shell.ok(
        "configs", "alter", "topic", topic, "--set", "max.message.bytes=2000", "--append", "cleanup.policy=compact"
    )
    heading, *lines = shell.ok("configs", "describe", "topic", topic).decode().splitlines()
    assert heading.split() == ["NAME", "VALUE", "SOURCE"]
    assert [line.split() for line in lines] == [
        ["cleanup.policy", "delete,compact", "topic"],
        ["max.message.bytes", "2000", "topic"],
    ]
    shell.ok("configs", "alter", "topic", topic, "--unset", "max.message.bytes", "--subtract", "cleanup.policy=delete")
    [row] = json.loads(shell.ok("configs", "describe", "topic", topic, "--format", "json"))
    assert (row["name"], row["value"]) == ("cleanup.policy", "compact")


def test_a_setting_that_cannot_be_is_refused_by_the_broker(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic)
    shell("configs", "alter", "topic", topic, "--set", "retention.ms=soon")
    assert shell.exit_code == 1
    assert "INVALID_CONFIG" in shell.errors


def test_a_brokers_settings_are_shown(shell: Shell) -> None:
    rows = json.loads(shell.ok("configs", "describe", "broker", "1", "--all", "--format", "json"))
    assert {"num.partitions", "log.retention.ms"} <= {row["name"] for row in rows}
    shell("configs", "describe", "broker", "99")
    assert shell.exit_code == 1
    assert "broker 99 is not there" in shell.errors
