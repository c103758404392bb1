"""What is rarely done to groups, done by the stock Java client to Apache Kafka and to Tidelog: both tell it the same, word by word."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import TOOL_TIMEOUT_S, KafkaProcess, jars
from tests.compatibility.drivers import group_story
from tests.compatibility.processes import TidelogProcess

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]


def told(command: list[str], bootstrap: str) -> list[str]:
    done = subprocess.run([*command, bootstrap], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{bootstrap}: {done.stdout}{done.stderr}"
    return [line for line in done.stdout.splitlines() if line.startswith("= ")]


def test_the_story_of_groups_is_the_one_that_kafka_tells(kafka: KafkaProcess, tmp_path: Path) -> None:
    command = group_story(jars(), tmp_path / "classes")
    options = ("-X", "group.initial.rebalance.delay.ms=0")
    with TidelogProcess(tmp_path / "data", *options) as tidelog, ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(partial(told, command), (tidelog.bootstrap, kafka.bootstrap))
    assert len(theirs) > 40
    assert ours == theirs
