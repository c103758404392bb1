"""What `tidelog metrics` makes of the pages of brokers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tidelog.cli.metrics import Sample, samples
from tidelog.testing import Cluster

PAGE = """\
# TYPE plain gauge
plain 7
labelled_total{topic="a\\"b\\\\c",partition="3"} 1.5
took_ms{quantile="0.99"} 12
took_ms{quantile="0.5"} NaN
"""


def test_a_page_is_taken_apart_and_put_together_with_its_broker() -> None:
    *found, nothing = samples(2, PAGE)
    assert (nothing.as_text(), nothing.known_value) == ('took_ms{broker="2",quantile="0.5"} NaN', None)
    assert found == [
        Sample(2, "plain", {}, 7.0),
        Sample(2, "labelled_total", {"topic": 'a"b\\c', "partition": "3"}, 1.5),
        Sample(2, "took_ms", {"quantile": "0.99"}, 12.0),
    ]
    assert [one.as_text() for one in found] == [
        'plain{broker="2"} 7',
        'labelled_total{broker="2",topic="a\\"b\\\\c",partition="3"} 1.5',
        'took_ms{broker="2",quantile="0.99"} 12',
    ]


def run(kafka: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", "metrics", "-b", kafka.bootstrap_servers, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_all_brokers_are_asked_where_their_settings_say() -> None:
    with Cluster(2, topics={"orders": 3}, config={"metrics.listeners": "http://127.0.0.1:0"}) as kafka:
        done = run(kafka, "leadercount", "activebrokercount", "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        rows = json.loads(done.stdout)
        assert {row["broker"] for row in rows} == {1, 2}
        led = [row["value"] for row in rows if row["name"] == "kafka_server_replicamanager_leadercount"]
        assert sum(led) == 3
        assert run(kafka, "--broker", "2", "leadercount").stdout.count("\n") == 1
        assert len(run(kafka, "--urls").stdout.splitlines()) == 2
        assert run(kafka, "nothing-is-called-so").returncode == 1
        gone = run(kafka, "--broker", "7")
        assert (gone.returncode, gone.stderr) == (1, "tidelog: broker 7 is not there; there are 1, 2\n")


@pytest.mark.slow
def test_a_broker_that_shows_none_is_told_how() -> None:
    with Cluster(1) as kafka:
        done = run(kafka)
        assert done.returncode == 1
        assert "broker 1 shows no metrics: start it with -X metrics.listeners=http://127.0.0.1:9404" in done.stderr


@pytest.mark.slow
def test_one_that_hangs_is_named_and_keeps_back_nothing_of_the_others() -> None:
    with Cluster(2, config={"metrics.listeners": "http://127.0.0.1:0"}) as kafka:
        controller = kafka.controller()
        kafka.pause(3 - controller)
        done = run(kafka, "activebrokercount", "-X", "request.timeout.ms=2000")
        assert done.returncode == 1
        assert f'activebrokercount{{broker="{controller}"}} 2' in done.stdout
        assert f"broker {3 - controller}" in done.stderr
