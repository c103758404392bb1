"""Brokers and tools shared by the compatibility tests: one process each per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing, jars
from tests.compatibility.fetch import kcat
from tests.compatibility.processes import TidelogProcess


@pytest.fixture(scope="session")
def tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogProcess]:
    """A Tidelog broker as a user starts it; tests share it and use topics of their own."""
    with TidelogProcess(tmp_path_factory.mktemp("tidelog") / "data") as process:
        yield process


@pytest.fixture(scope="session")
def kafka(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """An Apache Kafka broker; tests share it and use topics of their own."""
    with KafkaProcess(tmp_path_factory.mktemp("kafka")) as process:
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


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return name.strip("-")[-200:]
