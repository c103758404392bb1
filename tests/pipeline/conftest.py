"""What the tests of the pipeline share: one Spark session, one cluster of real brokers, and a hand in that cluster.

A test that uses `spark` carries `pytest.mark.spark` and a timeout: the first one waits for Spark to start, which takes a while.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand
from tests.pipeline.starting import BRIEF_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.driver.extraJavaOptions": BRIEF_JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "50ms",
}
_numbers: Final = itertools.count(1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads, whose Python workers are this interpreter."""
    from pyspark.sql import SparkSession  # imported by those tests alone that need it: it takes a second

    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    home = tmp_path_factory.mktemp("spark")
    settings = {**_SETTINGS, "spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")}
    builder = SparkSession.builder.master("local[2]").appName("tidelog tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers for all tests; who kills one starts it again."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), _BROKER_SETTINGS) as started:
        yield started


@pytest.fixture(scope="session")
def hand(cluster: TidelogCluster) -> Iterator[Hand]:
    """A client of the cluster for what tests do beside Spark."""
    opened = Hand(cluster.bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; the topic is not made yet."""
    return f"topic-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A directory for the checkpoint of one query."""
    return str(tmp_path / "checkpoint")


_BROKER_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "tidelog.registry.session.timeout.ms": "9000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
