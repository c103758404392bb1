"""`tidelog up` plans before it serves."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tidelog.cli.failure import WrongUsage
from tidelog.cli.hints import program
from tidelog.cli.plan import Plan
from tidelog.cli.serving import Ready
from tidelog.cli.up import add_arguments, plan_from, welcome
from tidelog.config import BrokerConfig


def plan(*arguments: str) -> Plan:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return plan_from(parser.parse_args(arguments))


def test_the_plan_makes_a_valid_broker_config(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties(plan("--data", str(tmp_path), "--port", "0").properties)
    assert config.broker_id == 1
    assert config.log_dirs == (str(tmp_path / "broker-1"),)
    assert config.registry_path == str(tmp_path / "registry.sqlite")
    assert str(config.listeners[0]) == "PLAINTEXT://127.0.0.1:0"


def test_ipv6_hosts_are_put_in_brackets() -> None:
    assert plan("--host", "::1").properties["listeners"] == "PLAINTEXT://[::1]:9092"


def test_x_wins_over_options_and_options_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=7\nlisteners=PLAINTEXT://:1\nlog.retention.hours=1\n")
    properties = plan("--config", str(file), "--port", "5", "-X", "num.partitions=3").properties
    assert properties["num.partitions"] == "3"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:5"
    assert properties["log.retention.hours"] == "1"


def test_zookeeper_is_where_the_option_says() -> None:
    config = BrokerConfig.from_properties(plan("--registry", "zookeeper://a:1,b:2/x").properties)
    assert config.zookeeper_connect == "a:1,b:2/x"


def test_an_unreadable_config_file_is_named() -> None:
    with pytest.raises(WrongUsage, match="no-such-file"):
        plan("--config", "no-such-file")


def test_the_log_lies_with_the_data_unless_told_otherwise(tmp_path: Path) -> None:
    assert plan("--data", str(tmp_path)).log_file == tmp_path / "logs" / "broker-1.log"
    assert plan("--log-file", "-").log_file is None


def test_the_welcome_gives_lines_to_paste_with_the_real_port_and_programs_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "bin"
    there.mkdir()
    monkeypatch.setenv("PATH", str(there))
    monkeypatch.setattr("sys.argv", [".venv/bin/tidelog", "up"])

    def said() -> str:
        return welcome(Ready("127.0.0.1:4711", ["http://127.0.0.1:4712/metrics"]), plan("--data", str(tmp_path)))

    assert str(tmp_path) in said()
    assert "metrics  http://127.0.0.1:4712/metrics\n" in said()
    assert "echo 'hello, world' | .venv/bin/tidelog produce -b 127.0.0.1:4711 -t hello\n" in said()
    assert "kcat" not in said()
    kcat = there / "kcat"
    kcat.touch(0o755)
    assert "  kcat -b 127.0.0.1:4711 -t hello -C -e\n" in said()


@pytest.mark.parametrize(
    ("called", "is_found", "shown"),
    [
        ("bin/tidelog", True, "tidelog"),
        ("bin/tidelog", False, "{place}/bin/tidelog"),
        ("tidelog/__main__.py", False, f"{sys.executable} -m tidelog"),
        ("some-test-runner", False, "tidelog"),
    ],
)
def test_hints_name_the_program_as_it_can_be_called_elsewhere(
    called: str, is_found: bool, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / called
    file.parent.mkdir(exist_ok=True)
    file.touch(0o755)
    monkeypatch.setenv("PATH", str(file.parent) if is_found else str(tmp_path / "elsewhere"))
    monkeypatch.setattr("sys.argv", [str(file)])
    assert program() == shown.format(place=tmp_path)


@pytest.mark.parametrize("count", ["0", "100"])
def test_a_number_of_brokers_that_no_machine_can_serve_is_a_sentence(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        plan("--brokers", count)
    assert f"'{count}' is not a number of brokers, each of which wants a core" in capsys.readouterr().err


def test_a_file_may_place_and_number_the_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=7\nlisteners=PLAINTEXT://:1234\nlog.dirs=/a,/b\n")
    config = BrokerConfig.from_properties(plan("--config", str(file)).properties)
    assert config.broker_id == 7
    assert config.log_dirs == ("/a", "/b")
    assert config.registry_path is None
    assert config.listeners[0].port == 1234


def test_the_environment_wins_over_the_file_and_x_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=7\nlog.retention.hours=1\nlog.segment.bytes=1000\n")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "5")
    monkeypatch.setenv("KAFKA_LOG_RETENTION_HOURS", "2")
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1G")
    made = plan("--config", str(file), "-X", "num.partitions=3")
    assert made.properties["num.partitions"] == "3"
    assert made.properties["log.retention.hours"] == "2"
    assert made.properties["log.segment.bytes"] == "1000"
    assert list(made.passed_over) == ["KAFKA_HEAP_OPTS"]


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITION", "5")
    with pytest.raises(WrongUsage, match="did you mean KAFKA_NUM_PARTITIONS"):
        plan()


def test_the_older_name_of_the_log_directories_is_heeded(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dir=/somewhere\n")
    made = plan("--config", str(file))
    assert BrokerConfig.from_properties(made.properties).log_dirs == ("/somewhere",)
    assert made.data == "/somewhere"


def test_x_numbers_the_broker_whatever_the_file_calls_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=7\n")
    properties = plan("--config", str(file), "-X", "node.id=9").properties
    assert BrokerConfig.from_properties(properties).broker_id == 9


def test_ephemeral_and_a_data_directory_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        plan("--ephemeral", "--data", "x")
    assert "not allowed with" in capsys.readouterr().err


def test_the_welcome_says_what_becomes_of_the_data(tmp_path: Path) -> None:
    made = plan("--data", str(tmp_path))
    assert "(new)" in welcome(Ready("h:1", []), made)
    assert "(used again)" in welcome(Ready("h:1", []), made, had_data=True)
    assert "nothing is left behind" in welcome(Ready("h:1", []), made, is_ephemeral=True)
