"""The same cluster for tests that wait: every verb of AsyncCluster, run on an event loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tidelog.client.bridge import Bridge
from tidelog.model import BrokerId
from tidelog.testing.async_cluster import START_S, AsyncCluster, Topics
from tidelog.testing.errors import ClusterFailed

P = ParamSpec("P")
R = TypeVar("R")


def _waiting(
    verb: Callable[Concatenate[AsyncCluster, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Cluster, P], R]:
    """The verb for callers that wait."""

    @wraps(verb)
    def wait(self: Cluster, /, *args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # of pytest: what failed is the line of the test
        try:
            return self._run(verb(self._cluster, *args, **kwargs))
        except ClusterFailed as failure:
            # The sentence says all; how it came here through a loop in a thread is a page that nobody wants to read.
            raise failure.with_traceback(None) from None

    return wait


class Cluster:
    """Brokers for a test: `with Cluster(3) as kafka`, in a script, a notebook or any test framework.

    `config` has settings of the brokers by their Kafka names. Without `data` nothing is kept. Several clusters may be there at once, in as
    many processes as one likes. Every verb has a bound, and raises ClusterFailed, or NotInTime, with a sentence that says what was seen.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Topics = (),
        config: Mapping[str, str | int | float | bool] | None = None,
        data: str | Path | None = None,
        timeout_s: float = START_S,
    ) -> None:
        self._cluster = AsyncCluster(brokers, topics=topics, config=config, data=data, timeout_s=timeout_s)
        self._bridge: Bridge | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start all brokers, and wait until they serve and know each other."""
        if self._bridge is not None:
            raise ClusterFailed("the cluster was started already")
        self._bridge = Bridge()
        try:
            self._run(self._cluster.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all brokers, and remove what they kept unless `data` was given. Harmless when done twice."""
        if self._bridge is None:
            return
        try:
            self._run(self._cluster.close())
        finally:
            self._bridge.close()
            self._bridge = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients are told: host:port of every broker, with commas between."""
        return self._cluster.bootstrap_servers

    @property
    def broker_ids(self) -> list[BrokerId]:
        """From 1 on, dead ones too."""
        return self._cluster.broker_ids

    @property
    def data(self) -> Path:
        """Where the brokers keep their logs (`broker-N`), and what they have to say (`logs/broker-N.log`)."""
        return self._cluster.data

    def log(self, broker: BrokerId) -> str:
        """The end of what a broker has logged, over all its lives."""
        return self._cluster.log(broker)

    def pid(self, broker: BrokerId) -> int:
        """The process of a broker, for those who measure it."""
        return self._cluster.pid(broker)

    def is_alive(self, broker: BrokerId) -> bool:
        """Whether a broker's process is there; it may be paused."""
        return self._cluster.is_alive(broker)

    restore = _waiting(AsyncCluster.restore)

    create_topic = _waiting(AsyncCluster.create_topic)
    produce = _waiting(AsyncCluster.produce)
    records = _waiting(AsyncCluster.records)

    kill = _waiting(AsyncCluster.kill)
    stop = _waiting(AsyncCluster.stop)
    start_broker = _waiting(AsyncCluster.start_broker)
    restart = _waiting(AsyncCluster.restart)
    pause = _waiting(AsyncCluster.pause)
    resume = _waiting(AsyncCluster.resume)
    move_leader = _waiting(AsyncCluster.move_leader)
    move_coordinator = _waiting(AsyncCluster.move_coordinator)

    cut = _waiting(AsyncCluster.cut)
    mend = _waiting(AsyncCluster.mend)
    fill_disk = _waiting(AsyncCluster.fill_disk)
    free_disk = _waiting(AsyncCluster.free_disk)
    fail = _waiting(AsyncCluster.fail)
    delay = _waiting(AsyncCluster.delay)
    end_faults = _waiting(AsyncCluster.end_faults)
    faults = _waiting(AsyncCluster.faults)

    leader = _waiting(AsyncCluster.leader)
    controller = _waiting(AsyncCluster.controller)
    coordinator = _waiting(AsyncCluster.coordinator)
    wait_for_leader = _waiting(AsyncCluster.wait_for_leader)
    wait_for_isr = _waiting(AsyncCluster.wait_for_isr)
    wait_for_group = _waiting(AsyncCluster.wait_for_group)
    replicas = _waiting(AsyncCluster.replicas)

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        if self._bridge is None:
            work.close()
            raise ClusterFailed("the cluster has not been started: use it as a context manager, or call start()")
        return self._bridge.run(work)
