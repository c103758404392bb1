"""What several commands understand alike."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidelog.cli.arguments import with_ports


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("broker-1", "broker-1:9092"),
        ("broker-1:1234", "broker-1:1234"),
        ("a, b:1,[::1],[::1]:2", "a:9092,b:1,[::1]:9092,[::1]:2"),
        ("", ""),
    ],
)
def test_a_broker_without_a_port_is_at_that_of_kafka(given: str, meant: str) -> None:
    assert with_ports(given) == meant


@pytest.mark.slow
def test_a_host_that_there_is_not_is_told_as_such_also_without_a_port() -> None:
    command = [sys.executable, "-m", "tidelog", "topics", "list", "-b", "no-such-host.invalid"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no-such-host.invalid:9092" in done.stderr
