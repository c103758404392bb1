"""Wrong turns of an operator and of the registry, against a running cluster: a clear message, and no harm to anybody."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.load import LibrdkafkaLoad, Load
from tests.cluster.waiting import eventually
from tests.cluster.witness import Witness
from tests.compatibility.processes import RunningProcess, TidelogCluster
from tests.zookeeper_ensemble import ZooKeeperEnsemble

pytestmark = [pytest.mark.timed, pytest.mark.timeout(180)]
TOPIC: Final = "kept"
PARTITION_COUNT: Final = 3
GOES_ON: Final = 20  # acknowledgements of a partition that say it goes on
SEVERAL_SESSIONS: Final = 300  # as many, sent one every hundredth of a second, last longer than a session does
SHORT_SESSIONS: Final = {"tidelog.registry.session.timeout.ms": "2000", "zookeeper.session.timeout.ms": "2000"}


class Scene:
    """A cluster with a topic, and a load that goes on."""

    def __init__(self, cluster: TidelogCluster, witness: Witness, load: Load) -> None:
        self.cluster = cluster
        self.witness = witness
        self.load = load

    def goes_on(self, count: int = GOES_ON) -> None:
        """Wait until as many records more are acknowledged in each partition."""
        goals = [done + count for done in self.load.counts]
        eventually(
            lambda: all(done >= goal for done, goal in zip(self.load.counts, goals, strict=True)), "the load goes on"
        )
        assert not self.load.failures

    def is_whole(self) -> bool:
        leaders = self.witness.leaders().values()
        return len(leaders) == PARTITION_COUNT and all(len(row.isr) == 3 for row in leaders)

    def tidelog(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of an operator, with what it says."""
        command = [sys.executable, "-m", "tidelog", *words, "--bootstrap-server", self.cluster.bootstrap]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def scene(directory: Path, properties: dict[str, str] | None = None) -> Iterator[Scene]:
    with TidelogCluster(directory, {**SHORT_SESSIONS, **(properties or {})}) as cluster:
        witness = Witness({broker_id: f"127.0.0.1:{port}" for broker_id, port in cluster.ports.items()}, TOPIC)
        witness.create_topic(PARTITION_COUNT)
        with LibrdkafkaLoad(cluster.bootstrap, TOPIC, PARTITION_COUNT) as load:
            running = Scene(cluster, witness, load)
            running.goes_on()
            yield running
        assert not load.failures
        assert load.unanswered_count == 0


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("embedded")) as running:
        yield running


def broker(directory: Path, broker_id: int, registry: Path) -> list[str]:
    """The command of one more broker."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "server.properties"
    settings = {
        "node.id": str(broker_id),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory / "logs"),
        "tidelog.registry.path": str(registry),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return [sys.executable, "-m", "tidelog", "broker", "--config", str(file)]


def refused(command: list[str], code: int = 1) -> str:
    """The last words of a broker that could not serve."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "ready" not in done.stdout
    return done.stderr.splitlines()[-1]


def test_a_broker_id_used_twice_is_refused_and_its_owner_serves_on(embedded: Scene, tmp_path: Path) -> None:
    said = refused(broker(tmp_path, 2, embedded.cluster.data / "registry.sqlite"))
    assert "2" in said
    assert sorted(embedded.cluster.pids) == [1, 2, 3]
    embedded.goes_on()
    eventually(embedded.is_whole, "all replicas are in sync")


def test_a_directory_of_another_cluster_is_refused_and_left_alone(embedded: Scene, tmp_path: Path) -> None:
    with RunningProcess(broker(tmp_path, 9, tmp_path / "other.sqlite")) as other:
        other.wait_for("^ready")
    before = (tmp_path / "logs" / "meta.properties").read_bytes()
    said = refused(broker(tmp_path, 9, embedded.cluster.data / "registry.sqlite"))
    assert "cluster" in said
    assert str(tmp_path / "logs") in said
    assert (tmp_path / "logs" / "meta.properties").read_bytes() == before
    assert embedded.witness.registered() == {1, 2, 3}
    embedded.goes_on()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("min.insync.replicas=some", "min.insync.replicas"),
        ("retention.ms=-5", "retention.ms"),
        ("cleanup.policy=forget", "cleanup.policy"),
        ("no.such.setting=1", "no.such.setting"),
    ],
)
def test_an_invalid_change_of_a_topic_is_refused_and_changes_nothing(embedded: Scene, setting: str, said: str) -> None:
    before = embedded.tidelog("configs", "describe", "topic", TOPIC, "--all").stdout
    done = embedded.tidelog("configs", "alter", "topic", TOPIC, "--set", setting)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert embedded.tidelog("configs", "describe", "topic", TOPIC, "--all").stdout == before
    embedded.goes_on()


def test_an_invalid_change_of_all_brokers_is_refused_and_changes_nothing(embedded: Scene) -> None:
    done = embedded.tidelog("configs", "alter", "broker", "default", "--set", "min.insync.replicas=0")
    assert done.returncode == 1
    assert "min.insync.replicas" in done.stderr
    embedded.goes_on()


@pytest.mark.parametrize("kind", ["below a file", "a directory", "no database"])
def test_a_registry_file_that_cannot_be_one_is_refused(tmp_path: Path, kind: str) -> None:
    registry = tmp_path / "registry.sqlite"
    if kind == "below a file":
        (tmp_path / "file").write_text("not a directory")
        registry = tmp_path / "file" / "registry.sqlite"
    elif kind == "a directory":
        registry.mkdir()
    else:
        registry.write_text("not a database, " * 100)
    said = refused(broker(tmp_path / "broker", 1, registry))
    assert str(registry.parent if kind == "below a file" else registry) in said
    if kind == "no database":
        assert registry.read_text() == "not a database, " * 100


def test_a_registry_file_that_is_locked_for_a_while_holds_up_no_record(tmp_path: Path) -> None:
    with scene(tmp_path) as running:
        with closing(sqlite3.connect(tmp_path / "registry.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            running.goes_on(SEVERAL_SESSIONS)
            other.execute("ROLLBACK")
        done = running.tidelog("topics", "create", "after")
        assert done.returncode == 0, done.stderr
        running.goes_on()
        eventually(running.is_whole, "all replicas are in sync")


def test_records_go_on_without_zookeeper_and_administration_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path / "ensemble") as ensemble:
        zookeeper = {"zookeeper.connect": ensemble.connect_string}
        with scene(tmp_path / "brokers", zookeeper) as running:
            for member in range(3):
                ensemble.kill(member)
            running.goes_on(SEVERAL_SESSIONS)
            done = running.tidelog("topics", "create", "too-early")
            assert done.returncode == 1
            assert "too-early" in done.stderr or "controller" in done.stderr, done.stderr
            ensemble.heal()
            eventually(
                lambda: running.tidelog("topics", "create", "after", "--if-not-exists").returncode == 0,
                "topics can be made again",
            )
            running.goes_on()
            eventually(running.is_whole, "all replicas are in sync")
            assert running.witness.registered() == {1, 2, 3}
