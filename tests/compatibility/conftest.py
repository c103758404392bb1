"""Brokers and tools shared by the compatibility tests: one process each per session.

The brokers keep records for ever, because the tests send some with times of long ago, which retention would delete under their feet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing, jars, old_client_jars
from tests.compatibility.drivers import Driver, java_driver, kafkajs, kafkajs_driver
from tests.compatibility.fetch import kcat
from tests.compatibility.processes import TidelogProcess


@pytest.fixture(scope="session")
def tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogProcess]:
    """A Tidelog broker as a user starts it; tests share it and use topics of their own."""
    with TidelogProcess(tmp_path_factory.mktemp("tidelog") / "data", "-X", "log.retention.ms=-1") as process:
        yield process


@pytest.fixture(scope="session")
def kafka(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """An Apache Kafka broker; tests share it and use topics of their own."""
    with KafkaProcess(tmp_path_factory.mktemp("kafka"), properties={"log.retention.ms": "-1"}) as process:
        yield process


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Kafka's own tools can be started."""
    try:
        jars()
    except ToolMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def kcat_path() -> str:
    """The path of kcat."""
    try:
        return kcat()
    except ToolMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java_old(tidelog: TidelogProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The last Java client of the 3.x line, talking to Tidelog."""
    yield from _driver(lambda: java_driver(old_client_jars(), _classes(tmp_path_factory), tidelog.bootstrap))


@pytest.fixture(scope="session")
def java_new(tidelog: TidelogProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The Java client of the newest Kafka, talking to Tidelog."""
    yield from _driver(lambda: java_driver(jars(), _classes(tmp_path_factory), tidelog.bootstrap))


@pytest.fixture(scope="session")
def node(tidelog: TidelogProcess) -> Iterator[Driver]:
    """KafkaJS, talking to Tidelog."""
    yield from _driver(lambda: kafkajs_driver(kafkajs(), tidelog.bootstrap))


@pytest.fixture(params=["java_old", "java_new", "node"])
def client(request: pytest.FixtureRequest) -> Driver:
    """Each client that has a driver, in turn."""
    return _of_the_session(request)


@pytest.fixture(params=["java_old", "java_new"])
def java(request: pytest.FixtureRequest) -> Driver:
    """Each of the Java clients in turn."""
    return _of_the_session(request)


def _of_the_session(request: pytest.FixtureRequest) -> Driver:
    driver = request.getfixturevalue(request.param)
    assert isinstance(driver, Driver)
    return driver


def _classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("classes")


def _driver(start: Callable[[], Driver]) -> Iterator[Driver]:
    try:
        driver = start()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with driver:
        yield driver


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return name.strip("-")[-200:]
