"""Fixtures of Kafka clusters for pytest; found by itself where Tidelog is installed.

`kafka` is the cluster of a test: the one that all tests of the session share, or, for a test with `@pytest.mark.kafka(brokers=3, ...)`, one of
its own. A test that fails is told what its cluster looked like then.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from tidelog.testing import Cluster

_MARK: Final = "kafka"
_SHARED: Final = "kafka_cluster"
_OF_MARK: Final = ("brokers", "topics", "config")
_LOG_LINES: Final = 40
_LOOK_S: Final = 5.0
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_NAME_MAX: Final = 200  # of 249, the rest is for a number

_used: Final = pytest.StashKey["Cluster"]()
_shared: Final = pytest.StashKey["Cluster"]()  # of the session, while it lives
_numbers: Final = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--kafka-brokers`, `--kafka-config`."""
    group = parser.getgroup("kafka", "Kafka clusters (Tidelog)")
    group.addoption(
        "--kafka-brokers", type=int, default=1, metavar="N", help="brokers of the cluster that tests share (default: 1)"
    )
    group.addoption(
        "--kafka-config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="setting of the brokers of all clusters by its Kafka name; may be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kafka(brokers=1, topics=..., config=...): the fixture `kafka` of this test is a cluster of its own, like this",
    )


@pytest.fixture(scope="session")
def kafka_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """The cluster that all tests of this process share."""
    from tidelog.testing import Cluster

    with Cluster(pytestconfig.getoption("--kafka-brokers"), config=_settings(pytestconfig)) as cluster:
        pytestconfig.stash[_shared] = cluster
        yield cluster
        del pytestconfig.stash[_shared]


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of this test: its own if it is marked with `kafka`, else the shared one."""
    mark = request.node.get_closest_marker(_MARK)
    if mark is None:
        cluster: Cluster = request.getfixturevalue("kafka_cluster")
        request.node.stash[_used] = cluster
        yield cluster
        return
    from tidelog.testing import Cluster as OwnCluster

    wanted = _wanted(mark, request.config)
    with OwnCluster(wanted.pop("brokers", request.config.getoption("--kafka-brokers")), **wanted) as own:
        request.node.stash[_used] = own
        yield own


@pytest.fixture
def kafka_bootstrap_servers(kafka: Cluster) -> str:
    """What clients of this test are told."""
    return kafka.bootstrap_servers


@pytest.fixture
def kafka_topic(kafka: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic with one partition that nobody has used before, called like the test."""
    name = _NOT_IN_NAMES.sub("-", request.node.name).strip("-")[:_NAME_MAX]
    return kafka.create_topic(f"{name}-{next(_numbers)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Make the shared cluster whole again, after everything that the test's own fixtures do to it: the next test finds it as it should be."""
    try:
        yield
    finally:
        cluster = _cluster_of(item)
        if cluster is not None and cluster is item.config.stash.get(_shared, None):
            cluster.restore()


def _cluster_of(item: pytest.Item) -> Cluster | None:
    """The one that a test has used, under whichever name; none that has been closed."""
    has_shared = isinstance(item, pytest.Function) and _SHARED in item.fixturenames
    cluster = item.stash.get(_used, None) or (item.config.stash.get(_shared, None) if has_shared else None)
    return cluster if cluster is not None and cluster.broker_ids else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failure what the cluster looked like, and what its brokers had to say."""
    report = yield
    if report.failed and (cluster := _cluster_of(item)) is not None:
        report.sections += _story(cluster)
    return report


def _story(cluster: Cluster) -> list[tuple[str, str]]:
    from tidelog.testing import ClusterFailed

    try:
        picture = cluster.replicas(timeout_s=_LOOK_S)
    except ClusterFailed as failure:
        picture = str(failure)
    sections = [("Kafka replicas", picture)]
    if wrong := _faults(cluster):
        sections.append(("Kafka faults", wrong))
    for broker in cluster.broker_ids:
        state = "" if cluster.is_alive(broker) else ", not running"
        last_lines = cluster.log(broker).splitlines()[-_LOG_LINES:]
        sections.append((f"Kafka broker {broker}{state}", "\n".join(last_lines)))
    return sections


def _faults(cluster: Cluster) -> str:
    from tidelog.testing import ClusterFailed

    try:
        return "\n".join(f"broker {broker}: {fault}" for broker, all_of in cluster.faults().items() for fault in all_of)
    except ClusterFailed as failure:
        return str(failure)


def _wanted(mark: pytest.Mark, config: pytest.Config) -> dict[str, Any]:
    unknown = sorted(set(mark.kwargs) - set(_OF_MARK))
    if mark.args or unknown:
        said = ", ".join([*map(repr, mark.args), *unknown])
        raise pytest.UsageError(f"@pytest.mark.kafka takes {', '.join(f'{name}=' for name in _OF_MARK)}, not {said}")
    return {**mark.kwargs, "config": {**_settings(config), **mark.kwargs.get("config", {})}}


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for setting in config.getoption("--kafka-config"):
        name, equals, value = setting.partition("=")
        if not equals:
            raise pytest.UsageError(f"--kafka-config {setting}: NAME=VALUE is wanted, as in num.partitions=3")
        settings[name] = value
    return settings
