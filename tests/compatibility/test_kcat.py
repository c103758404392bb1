"""kcat, as Debian ships it, against Tidelog."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.compatibility.processes import TidelogProcess

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def kcat(path: str, broker: TidelogProcess, *arguments: str, stdin: str = "") -> str:
    command = [path, "-b", broker.bootstrap, "-m", "10", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_produces_and_consumes(tidelog: TidelogProcess, topic: str, kcat_path: str, codec: str) -> None:
    lines = [f"k{number}:v{number}" for number in range(100)]
    kcat(kcat_path, tidelog, "-P", "-t", topic, "-K", ":", "-z", codec, stdin="\n".join(lines))
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-K", ":").splitlines() == lines


def test_kcat_reads_the_last_records_and_from_a_time(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    kcat(kcat_path, tidelog, "-P", "-t", topic, stdin="a\nb\nc")
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-o", "-1") == "c\n"
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-o", "s@0") == "a\nb\nc\n"


def test_kcat_lists_the_cluster(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    kcat(kcat_path, tidelog, "-P", "-t", topic, stdin="x")
    listed = json.loads(kcat(kcat_path, tidelog, "-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [tidelog.bootstrap]
    assert topic in [each["topic"] for each in listed["topics"]]
