"""The Java clients 3.9 and 4.x and KafkaJS, unmodified, in transactions; 4.x speaks the newer protocol (KIP-890), the others the older."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.compatibility import transaction_checks as check
from tests.compatibility.apache_kafka import ToolMissing, jars, old_client_jars
from tests.compatibility.driven_transactions import DrivenTransactions
from tests.compatibility.drivers import Driver, java_driver, kafkajs, kafkajs_driver
from tests.compatibility.processes import TidelogCluster
from tests.compatibility.transactional_client import Make

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(240)]
CLIENTS = ("java-3.x", "java-newest", "kafkajs")
EACH = pytest.mark.parametrize("make", CLIENTS, indirect=True)
JAVA = pytest.mark.parametrize("make", ["java-3.x", "java-newest", "java-newest-consumer-protocol"], indirect=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers that wait for nobody before a group's first generation, and look often for transactions that take too long."""
    settings = {**check.SETTINGS, "group.consumer.heartbeat.interval.ms": "500"}
    settings["group.consumer.min.heartbeat.interval.ms"] = "500"
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def drivers(cluster: TidelogCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Driver]]:
    """The process of a client by its name, started when it is asked for first."""
    running: dict[str, Driver] = {}
    starts: dict[str, Callable[[Path], Driver]] = {
        "java-3.x": lambda classes: java_driver(old_client_jars(), classes, cluster.bootstrap),
        "java-newest": lambda classes: java_driver(jars(), classes, cluster.bootstrap),
        "kafkajs": lambda _classes: kafkajs_driver(kafkajs(), cluster.bootstrap),
    }

    def driver(name: str) -> Driver:
        if name not in running:
            try:
                running[name] = stack.enter_context(starts[name](tmp_path_factory.mktemp("classes")))
            except ToolMissing as missing:
                pytest.skip(str(missing))
        return running[name]

    with ExitStack() as stack:
        yield driver


@pytest.fixture
def make(request: pytest.FixtureRequest, drivers: Callable[[str], Driver]) -> Make:
    """The client that the test names."""
    return made_by(drivers, request.param)


def made_by(drivers: Callable[[str], Driver], kind: str) -> Make:
    name, is_consumer_protocol, _ = kind.partition("-consumer-protocol")
    extra = "group.protocol=consumer" if is_consumer_protocol else "session.timeout.ms=10000 heartbeat.interval.ms=500"
    return partial(DrivenTransactions, driver=drivers(name), extra=extra)


def read_by_java(driver: Driver, _bootstrap: str, topic: str, partition: int, *, last: bytes) -> list[bytes]:
    """All values of a partition up to the last one, only what is committed."""
    values: list[bytes] = []
    position = 0
    while last not in values:
        found = driver.consume(topic, 1, partition=partition, where=position, isolation_level="read_committed")
        values += [each.message.value or b"" for each in found]
        position = found[-1].offset + 1
    return values


@EACH
@pytest.mark.parametrize("reader", ["java-3.x", "java-newest"])
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    cluster: TidelogCluster, topic: str, make: Make, drivers: Callable[[str], Driver], reader: str
) -> None:
    check.commit_and_abort(cluster, topic, make, partial(read_by_java, drivers(reader)))


@EACH
def test_a_transaction_that_sent_nothing_is_committed_or_aborted_all_the_same(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.end_without_records(cluster, topic, make)


@EACH
def test_the_next_producer_of_an_id_ends_what_the_last_one_left_open_and_fences_it(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.fence_a_zombie(cluster, topic, make)


@EACH
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_refused(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.take_too_long(cluster, topic, make)


@EACH
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.commit_offsets(cluster, topic, make)


@JAVA
def test_a_member_that_lost_its_partitions_cannot_commit_their_offsets_with_a_transaction(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.fence_a_member(cluster, topic, make)


def test_each_record_is_transformed_once_while_coordinators_and_leaders_are_killed(
    cluster: TidelogCluster, topic: str, drivers: Callable[[str], Driver]
) -> None:
    """All clients at once."""
    makes = {name: made_by(drivers, name) for name in CLIENTS}
    check.transform_while_brokers_are_killed(cluster, topic, makes)
