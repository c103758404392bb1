"""A real Kafka cluster for tests: `with Cluster(3) as kafka: connect(kafka.bootstrap_servers)`.

Real broker processes on free ports, at work in a fraction of a second, gone without a trace when the block ends, however it ends. Brokers can
be killed, paused and started again, leaders moved, and what comes of it waited for. For pytest there are fixtures (`kafka`, `kafka_topic`
and others), for those who come from containers a `KafkaContainer`. See docs/testing_with_tidelog.md.
"""

from tidelog.testing.async_cluster import AsyncCluster, Topic
from tidelog.testing.cluster import Cluster
from tidelog.testing.container import KafkaContainer
from tidelog.testing.errors import ClusterFailed, NotInTime

__all__ = ["AsyncCluster", "Cluster", "ClusterFailed", "KafkaContainer", "NotInTime", "Topic"]
