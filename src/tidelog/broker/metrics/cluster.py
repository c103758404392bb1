"""The cluster as the controller tells of it; brokers that are not the controller say only that."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.metrics.exposition import Exposition
from tidelog.broker.node import Node
from tidelog.server import Listener


def tell_cluster(node: Node, seen: Exposition) -> None:
    """Who is there, and what has no leader. What concerns all brokers is told by one of them, so that sums are right."""
    is_active = node.controller.is_active
    seen.gauge("kafka_controller_kafkacontroller_activecontrollercount", is_active)
    seen.counter("kafka_controller_controllerstats_uncleanleaderelections_total", node.controller.unclean_elections)
    image = node.metadata.image
    states = [state for topic in image.topics.values() for state in topic.partitions.values()]
    led = [state for state in states if state.leader in image.brokers]
    preferred = [state for state in led if state.leader == state.preferred_leader]
    for name, value in (
        ("offlinepartitionscount", len(states) - len(led)),
        ("preferredreplicaimbalancecount", len(states) - len(preferred)),
        ("globaltopiccount", len(image.topics)),
        ("globalpartitioncount", len(states)),
        ("activebrokercount", len(image.brokers)),
    ):
        seen.gauge(f"kafka_controller_kafkacontroller_{name}", value if is_active else 0)
    if not is_active:
        return
    seen.gauge("kafka_brokers", len(image.brokers))
    listener = node.config.listeners[0].name
    for broker_id, broker in sorted(image.brokers.items()):
        # From which kafka-exporter's dashboard fills its variables.
        at = broker.endpoints.get(listener)
        seen.gauge("kafka_broker_info", 1, id=broker_id, address="" if at is None else f"{at.host}:{at.port}")
    for name, topic in sorted(image.topics.items()):
        seen.gauge("kafka_topic_partitions", len(topic.partitions), topic=name)
        for index, state in topic.partitions.items():
            if state.leader not in image.brokers:  # There is no leader who would say so itself.
                seen.gauge("kafka_topic_partition_leader", -1, topic=name, partition=index)
                seen.gauge("kafka_topic_partition_under_replicated_partition", 1, topic=name, partition=index)


def tell_sockets(listeners: Iterable[Listener], seen: Exposition) -> None:
    """Who is connected."""
    for listener in listeners:
        seen.gauge(
            "kafka_server_socket_server_metrics_connection_count", listener.connection_count, listener=listener.name
        )
