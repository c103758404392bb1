"""What deploy/ offers: files that a broker, systemd and a builder of images understand."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.compatibility.processes import RunningProcess
from tidelog.cli.main import parser_for
from tidelog.cli.serving import STOP_WITHIN_S
from tidelog.config import BrokerConfig, parse_properties, without_effect
from tidelog.testing.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd tells Exec from exec
    parser.read_string((DEPLOY / "tidelog.service").read_text())
    return parser


def instructions() -> list[tuple[str, str]]:
    """The container file, line by line: no line of it is continued."""
    lines = (line.strip() for line in (DEPLOY / "Containerfile").read_text().splitlines())
    split = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return [(name, rest.strip()) for name, _, rest in split]


def only(name: str) -> str:
    (found,) = [rest for instruction, rest in instructions() if instruction == name]
    return found


def test_the_settings_are_understood_and_each_has_an_effect() -> None:
    properties = parse_properties((DEPLOY / "server.properties").read_text())
    config = BrokerConfig.from_properties(properties)
    assert not without_effect(properties)
    assert {listener.name for listener in config.advertised_listeners} == {"PLAINTEXT", "REPLICATION"}
    assert config.min_insync_replicas == 2


def test_the_unit_starts_what_there_is_and_waits_for_a_clean_end() -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == "/opt/tidelog/bin/tidelog"
    options = parser_for(arguments).parse_args(arguments)
    assert options.config == Path("/etc/tidelog/server.properties")
    assert int(service["TimeoutStopSec"]) > STOP_WITHIN_S
    data = parse_properties((DEPLOY / "server.properties").read_text())["log.dirs"]
    assert data == f"/var/lib/{service['StateDirectory']}", "the only place where it may write"


def test_a_python_that_is_not_there_is_not_called_too_old(tmp_path: Path) -> None:
    make = ["make", "broker", "PYTHON=nosuch", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "there is no 'nosuch'" in done.stderr
    assert "older" not in done.stderr


def test_the_image_runs_commands_that_there_are() -> None:
    (entry,) = json.loads(only("ENTRYPOINT"))
    assert entry == "tidelog"
    for words in (json.loads(only("CMD")), json.loads(only("HEALTHCHECK").partition("CMD ")[2])[1:]):
        parser_for(words).parse_args(words)
    assert only("USER") != "root"


def environment() -> dict[str, str]:
    """What the image sets, but for the PATH."""
    pairs = (rest.partition("=") for instruction, rest in instructions() if instruction == "ENV")
    return {name: value for name, _, value in pairs if name != "PATH"}


@pytest.mark.slow
def test_the_image_serves_at_every_port_it_exposes_and_takes_other_listeners(tmp_path: Path) -> None:
    ports = dict(zip(only("EXPOSE").split(), free_ports(3), strict=True))
    words = json.loads(only("CMD"))
    words[words.index("--data") + 1] = str(tmp_path / "data")
    # As one who runs it with -e adds them, and with ports that are free here.
    given = {
        **environment(),
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,REPLICATION://0.0.0.0:9192",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "REPLICATION",
    }
    for exposed, free in ports.items():
        given = {name: value.replace(exposed, str(free)) for name, value in given.items()}
    command = [sys.executable, "-m", "tidelog", *words]
    here = {name: value.replace("0.0.0.0", "127.0.0.1") for name, value in given.items()}  # noqa: S104  # not bound, replaced
    with RunningProcess(command, environment=here) as broker:
        broker.wait_for("^ready bootstrap=")
        for port in ports.values():
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        with urlopen(f"http://127.0.0.1:{ports['9404']}/metrics", timeout=60) as page:
            assert b"kafka_brokers 1" in page.read()


def test_an_image_is_built_without_what_lies_about() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "tidelog-data"} <= set(ignored)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_the_steps_of_the_image_make_a_broker_that_serves(tmp_path: Path) -> None:
    """In a clean directory, with this Python and no more than the image has."""
    source, installed = tmp_path / "src", tmp_path / "opt"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    step = next(rest for instruction, rest in instructions() if instruction == "RUN")
    step = step.replace("/src", str(source)).replace("/opt/tidelog", str(installed))
    step = step.replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
    subprocess.run(["sh", "-ec", step], check=True)
    assert not source.exists()
    words = json.loads(only("CMD"))
    words[words.index("--data") + 1] = str(tmp_path / "data")
    with RunningProcess([str(installed / "bin" / "tidelog"), *words, "--port", "0"]) as broker:
        broker.wait_for(r"^ready bootstrap=(\S+)$")
