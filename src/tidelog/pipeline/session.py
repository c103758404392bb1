"""A Spark session with a Java under it and settings that suit our source and sink. Whoever has a session of their own needs none of this."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.java import INSTALL, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
NEEDED: Final = ("pyspark", "pyarrow", "numba", "numpy", "pandas")
NEEDED_BY_PIPELINES: Final = (*NEEDED, "grpc", "grpc_status", "yaml")  # `pyspark[pipelines]`

DEFAULT_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",  # what a window is called does not depend on where the driver stands
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",  # the sink makes record batches of what it gets at a time
    "spark.sql.shuffle.partitions": "4",  # Spark's 200 is for clusters; each costs a micro-batch some 30 ms
}


class SparkMissing(Exception):
    """The packages of the extra `spark` are not all installed; the message says how to get them."""


def spark_session(
    app_name: str, *, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this process, made if there is none. `settings` win over ours. Raises SparkMissing or NoJava."""
    check_installed()
    prepare_environment(os.environ, master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in effective_settings(master, settings or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_pipelines_installed() -> None:
    """Raises SparkMissing where declared pipelines could not run."""
    check_installed(NEEDED_BY_PIPELINES)


def check_installed(needed: Sequence[str] = NEEDED) -> None:
    """Raises SparkMissing, without importing anything large."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkMissing(f"Spark is not installed here ({', '.join(missing)} missing): {INSTALL}")


def prepare_environment(environment: os._Environ[str] | dict[str, str], master: str) -> None:
    """Set what Spark's launcher reads from the environment. Raises NoJava."""
    environment["JAVA_HOME"] = str(find_java(environment).home)
    # Workers run the interpreter of the driver, with its packages, whatever `python3` on the PATH may be.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(master):
        environment.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # else the name of the host is looked up, and warned of


def effective_settings(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Our settings below those given."""
    here = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} if is_local(master) else {}
    return {**DEFAULT_SETTINGS, **here, **settings}


def is_local(master: str) -> bool:
    """Whether everything runs on this machine: local[2], local[2,4], local-cluster[2,1,1024]."""
    return master == "local" or master.startswith(("local[", "local-cluster["))
