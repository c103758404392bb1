"""A real Kafka cluster for tests: `with Cluster(3) as kafka: connect(kafka.bootstrap_servers)`.

Real broker processes on free ports, at work in a fraction of a second, gone without a trace when the block ends, however it ends. Brokers can
be killed, paused and started again, leaders moved, and what comes of it waited for. For pytest there are fixtures (`kafka`, `kafka_topic`
and others), for those who come from containers a `KafkaContainer`. See docs/testing_with_tidelog.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidelog.testing.async_cluster import AsyncCluster, Topic
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.container import KafkaContainer
    from tidelog.testing.errors import ClusterFailed, NotInTime

__all__ = ["AsyncCluster", "Cluster", "ClusterFailed", "KafkaContainer", "NotInTime", "Topic"]

# Every run of pytest where Tidelog is installed imports this package, for its plugin. Few of them want a cluster, so what takes time waits.
_HOMES: Final = {
    "AsyncCluster": "async_cluster",
    "Cluster": "cluster",
    "ClusterFailed": "errors",
    "KafkaContainer": "container",
    "NotInTime": "errors",
    "Topic": "async_cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
