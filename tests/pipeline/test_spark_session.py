"""What our sessions have beneath them: settings, environment, and a Java from pip if there is no other."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.pipeline.session import SparkMissing, check_installed, effective_settings, is_local, prepare_environment

COUNTS = """\
from tidelog.pipeline.session import spark_session
spark = spark_session("test", settings={"spark.sql.shuffle.partitions": "1"})
print("counted", spark.range(5).where("id > 1").count(), spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
"""


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,4]", "local[*]", "local-cluster[2,1,1024]"])
def test_masters_of_this_machine(master: str) -> None:
    assert is_local(master)


@pytest.mark.parametrize("master", ["spark://local:7077", "yarn", "k8s://https://local[1]"])
def test_masters_elsewhere(master: str) -> None:
    assert not is_local(master)


def test_given_settings_win_over_ours() -> None:
    chosen = effective_settings("local[2]", {"spark.ui.enabled": "true", "spark.more": "1"})
    assert (chosen["spark.ui.enabled"], chosen["spark.more"]) == ("true", "1")
    assert chosen["spark.sql.session.timeZone"] == "UTC"


def test_only_a_local_driver_hides_on_the_loopback_address() -> None:
    assert effective_settings("local[2]", {})["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in effective_settings("spark://host:7077", {})
    environment = dict(os.environ)
    environment.pop("SPARK_LOCAL_IP", None)
    prepare_environment(environment, "spark://host:7077")
    assert "SPARK_LOCAL_IP" not in environment
    prepare_environment(environment, "local[2]")
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_workers_run_this_interpreter_unless_told_otherwise() -> None:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    prepare_environment(environment, "local[2]")
    assert environment["PYSPARK_PYTHON"] == sys.executable
    environment = {**os.environ, "PYSPARK_PYTHON": "/other/python"}
    prepare_environment(environment, "local[2]")
    assert environment["PYSPARK_PYTHON"] == "/other/python"


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else object())
    with pytest.raises(SparkMissing, match=r"\(numba missing\): pip install 'tidelog\[spark\]'"):
        check_installed()


@pytest.mark.proof
@pytest.mark.spark
@pytest.mark.timeout(180)
def test_spark_runs_on_the_java_that_pip_brought(tmp_path: Path) -> None:
    """In a process of its own: a session keeps the Java it was started with."""
    bare = tmp_path / "bin"  # what Spark's scripts need, and no java
    bare.mkdir()
    for name in ("bash", "sh", "cat", "dirname", "basename", "head", "tr", "ps", "ls", "env", "uname", "readlink"):
        found = next((Path(each) / name for each in os.get_exec_path() if (Path(each) / name).exists()), None)
        if found is not None:
            (bare / name).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PYSPARK_PYTHON"}}
    environment = {**kept, "PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", COUNTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=170, check=False)
    assert "counted 3 UTC" in done.stdout, done.stdout + done.stderr
    assert len(list((tmp_path / "cache" / "tidelog").glob("java-*/bin/java"))) == 1
