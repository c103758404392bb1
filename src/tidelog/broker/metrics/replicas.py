"""The replicas of this broker, in the words of Kafka's own metrics and, for those it leads, of kafka-exporter."""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.broker.metrics.exposition import Exposition
from tidelog.broker.node import Node
from tidelog.broker.topic_traffic import Traffic
from tidelog.partition import Leadership, Partition
from tidelog.runtime import Disk, StorageFailure

_PARTITIONS_AT_ONCE: Final = 100
_TRAFFIC: Final = {
    "messages_in": "messagesin",
    "bytes_in": "bytesin",
    "bytes_out": "bytesout",
    "replication_bytes_in": "replicationbytesin",
    "replication_bytes_out": "replicationbytesout",
    "produce_requests": "totalproducerequests",
    "failed_produce_requests": "failedproducerequests",
    "fetch_requests": "totalfetchrequests",
    "failed_fetch_requests": "failedfetchrequests",
}


async def tell_replicas(node: Node, seen: Exposition) -> None:
    """Each replica, what they are together, and where they lie."""
    counts = _Counts()
    for looks, (partition, _) in enumerate(list(node.replicas.partitions()), 1):
        _tell_log(partition, seen)
        counts.partitions += 1
        leadership = partition.leadership
        if leadership is not None and partition.is_leader:
            counts.note(partition, leadership)
            _tell_led(partition, leadership, seen)
        if looks % _PARTITIONS_AT_ONCE == 0:
            await asyncio.sleep(0)
    counts.tell(seen)
    tell_traffic(node, seen)
    await _tell_directories(node, seen)
    _tell_waiting(node, seen)


class _Counts:
    """How many replicas are in which state."""

    def __init__(self) -> None:
        self.partitions = 0
        self._led = 0
        self._under_replicated = 0
        self._under_min_isr = 0
        self._at_min_isr = 0
        self._reassigned = 0

    def note(self, partition: Partition, leadership: Leadership) -> None:
        """One that is led here."""
        self._led += 1
        self._under_replicated += is_under_replicated(partition, leadership)
        self._under_min_isr += len(partition.isr) < partition.min_isr
        self._at_min_isr += len(partition.isr) == partition.min_isr
        self._reassigned += leadership.original_count != len(leadership.assignment)

    def tell(self, seen: Exposition) -> None:
        """As the replica manager of Kafka does."""
        seen.gauge("kafka_server_replicamanager_partitioncount", self.partitions)
        seen.gauge("kafka_server_replicamanager_leadercount", self._led)
        seen.gauge("kafka_server_replicamanager_underreplicatedpartitions", self._under_replicated)
        seen.gauge("kafka_server_replicamanager_underminisrpartitioncount", self._under_min_isr)
        seen.gauge("kafka_server_replicamanager_atminisrpartitioncount", self._at_min_isr)
        seen.gauge("kafka_server_replicamanager_reassigningpartitions", self._reassigned)


def is_under_replicated(partition: Partition, leadership: Leadership) -> bool:
    """Whether a replica that belongs to the partition is not in sync; one that a reassignment only adds does not count yet."""
    return len(partition.isr) < leadership.original_count


def tell_traffic(node: Node, seen: Exposition) -> None:
    """What went in and out, by topic and, without that label, together."""
    traffic = node.replicas.traffic
    _tell_counts(traffic.total, seen)
    for topic, of_topic in sorted(traffic.by_topic.items()):
        _tell_counts(of_topic, seen, topic=topic)


def _tell_counts(traffic: Traffic, seen: Exposition, **labels: str) -> None:
    for name, count in traffic.counts():
        seen.counter(f"kafka_server_brokertopicmetrics_{_TRAFFIC[name]}_total", count, **labels)


def _tell_log(partition: Partition, seen: Exposition) -> None:
    log, where = partition.log, _labels(partition)
    seen.gauge("kafka_log_log_size", log.size_bytes, **where)
    seen.gauge("kafka_log_log_logstartoffset", log.log_start_offset, **where)
    seen.gauge("kafka_log_log_logendoffset", log.log_end_offset, **where)
    seen.gauge("kafka_log_log_numlogsegments", len(log.segments), **where)


def _tell_led(partition: Partition, leadership: Leadership, seen: Exposition) -> None:
    where, isr_size = _labels(partition), len(partition.isr)
    is_under = is_under_replicated(partition, leadership)
    seen.gauge("kafka_cluster_partition_replicascount", len(leadership.assignment), **where)
    seen.gauge("kafka_cluster_partition_insyncreplicascount", isr_size, **where)
    seen.gauge("kafka_cluster_partition_underreplicated", is_under, **where)
    seen.gauge("kafka_cluster_partition_underminisr", isr_size < partition.min_isr, **where)
    seen.gauge("kafka_cluster_partition_atminisr", isr_size == partition.min_isr, **where)
    undecided = partition.high_watermark - partition.last_stable_offset
    seen.gauge("kafka_cluster_partition_laststableoffsetlag", undecided, **where)
    seen.gauge("kafka_topic_partition_current_offset", partition.high_watermark, **where)
    seen.gauge("kafka_topic_partition_oldest_offset", partition.log.log_start_offset, **where)
    seen.gauge("kafka_topic_partition_replicas", len(leadership.assignment), **where)
    seen.gauge("kafka_topic_partition_in_sync_replica", isr_size, **where)
    seen.gauge("kafka_topic_partition_under_replicated_partition", is_under, **where)
    seen.gauge("kafka_topic_partition_leader", partition.broker_id, **where)
    is_preferred = leadership.assignment[:1] == (partition.broker_id,)
    seen.gauge("kafka_topic_partition_leader_is_preferred", is_preferred, **where)


def _labels(partition: Partition) -> dict[str, object]:
    topic_partition = partition.topic_partition
    return {"topic": topic_partition.topic, "partition": topic_partition.index}


async def _tell_directories(node: Node, seen: Exposition) -> None:
    """Which directories have failed, and how much room the others have; asked in their own threads, for disks can be slow."""
    replicas, disk = node.replicas, node.runtime.disk
    failed = [directory for directory in replicas.directories if directory.failure is not None]
    seen.gauge("kafka_log_logmanager_offlinelogdirectorycount", len(failed))
    hosting = replicas.hosting
    offline = sum(1 for _, hosted in hosting.pairs() if hosted.directory.failure is not None)
    seen.gauge("kafka_server_replicamanager_offlinereplicacount", offline + len(hosting.unavailable))
    loop = asyncio.get_running_loop()
    for directory in replicas.directories:
        seen.gauge("kafka_log_logmanager_logdirectoryoffline", directory in failed, logDirectory=directory.path)
        if directory in failed:
            continue
        try:
            total, usable = await loop.run_in_executor(disk.threads(directory.path), _space, disk, directory.path)
        except StorageFailure:
            continue
        seen.gauge("tidelog_log_directory_total_bytes", total, directory=directory.path)
        seen.gauge("tidelog_log_directory_usable_bytes", usable, directory=directory.path)


def _space(disk: Disk, path: str) -> tuple[int, int]:
    return disk.total_bytes(path), disk.usable_bytes(path)


def _tell_waiting(node: Node, seen: Exposition) -> None:
    """Requests that are parked: Kafka's purgatory."""
    replicas = node.replicas
    waiting = {
        "Produce": replicas.produce_waiters.count,
        "Fetch": replicas.fetch_waiters.count + replicas.follower_waiters.count,
        "DeleteRecords": replicas.deletion_waiters.count,
    }
    for operation, count in waiting.items():
        seen.gauge("kafka_server_delayedoperationpurgatory_purgatorysize", count, delayedOperation=operation)
