"""Which workloads run together, and how the cluster is set up for them."""

from __future__ import annotations

from typing import Final

from tidelog.config.replication import RACK_AWARE_SELECTOR
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.faults.plan import FaultPlan
from tidelog.simulation.group_history import Protocol
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.auditor import Auditor
from tidelog.simulation.workloads.careless_appends import CarelessAppends
from tidelog.simulation.workloads.copies import Copies
from tidelog.simulation.workloads.elections import Elections
from tidelog.simulation.workloads.group_churn import GroupChurn
from tidelog.simulation.workloads.group_member import SESSION_MS
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.idempotent_appends import IdempotentAppends
from tidelog.simulation.workloads.ledger import Ledger
from tidelog.simulation.workloads.min_isr_changes import MinIsrChanges
from tidelog.simulation.workloads.readers import Reader
from tidelog.simulation.workloads.reassignment import Reassignments
from tidelog.simulation.workloads.record_deletion import RecordDeletions
from tidelog.simulation.workloads.retrying_appends import RetryingAppends
from tidelog.simulation.workloads.topic_churn import TopicChurn
from tidelog.simulation.workloads.topics import COPIES_PARTITION, LEDGER_PARTITIONS, REPLICAS, UNCLEAN_PARTITION
from tidelog.simulation.workloads.workload import Workload

_READER_RACK: Final = "rack-2"


_GROUP_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "8192",
    "offsets.commit.timeout.ms": "1500",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""Groups in a world in which everything happens within seconds. The topic of their offsets keeps its promises as `safe` does."""

_TRANSACTION_SETTINGS: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": "8192",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.two.phase.commit.enable": "true",
}
"""Likewise for transactions."""

_LOG_SETTINGS: Final = {"log.segment.bytes": "8192", "log.index.interval.bytes": "512"}
"""Where a plan says nothing of it, segments are small, so that logs roll."""


def prepare(cluster: SimulatedCluster) -> None:
    """Before the brokers start: each stands in a rack of its own, and a consumer may be sent to the replica in its rack."""
    replicas = min(REPLICAS, len(cluster.brokers))
    internal = {
        "offsets.topic.replication.factor": str(replicas),
        "tidelog.offsets.topic.min.insync.replicas": str(min(2, replicas)),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
    }
    for broker in cluster.brokers.values():
        broker.configure({"broker.rack": f"rack-{broker.broker_id}", "replica.selector.class": RACK_AWARE_SELECTOR})
        broker.suggest({**_GROUP_SETTINGS, **_TRANSACTION_SETTINGS, **_LOG_SETTINGS, **internal})


def default_workloads(
    cluster: SimulatedCluster, plan: FaultPlan, history: History, randomness: SimulatedRandomness
) -> list[Workload]:
    """One of each kind; together about 70 records a second. Every workload draws from a stream of its own."""
    return [
        *_writers(cluster.bootstrap, history, randomness),
        *_readers(cluster.bootstrap, history, randomness),
        *_groups(cluster, history, randomness),
        *_transactions(cluster, history, randomness),
        *_administrators(cluster.bootstrap, plan, history, randomness),
    ]


def _groups(cluster: SimulatedCluster, history: History, randomness: SimulatedRandomness) -> list[Workload]:
    """One of each protocol."""
    return [
        GroupChurn("classic", cluster, history, randomness.stream("classic group"), protocol=Protocol.CLASSIC),
        GroupChurn("modern", cluster, history, randomness.stream("modern group"), protocol=Protocol.CONSUMER),
    ]


def _transactions(cluster: SimulatedCluster, history: History, randomness: SimulatedRandomness) -> list[Workload]:
    """Those who write in transactions, and one who reads what they have committed."""
    read = (*LEDGER_PARTITIONS, COPIES_PARTITION)
    return [
        Ledger("ledger", cluster, history, randomness.stream("ledger")),
        Copies("copies", cluster, history, randomness.stream("copies")),
        Auditor("auditor", cluster.bootstrap, history, randomness.stream("auditor"), read),
    ]


def _writers(bootstrap: str, history: History, randomness: SimulatedRandomness) -> list[Workload]:
    return [
        IdempotentAppends("idempotent-1", bootstrap, history, randomness.stream("idempotent-1")),
        IdempotentAppends(
            "idempotent-2", bootstrap, history, randomness.stream("idempotent-2"), session_records_max=120
        ),
        RetryingAppends("retrying", bootstrap, history, randomness.stream("retrying")),
        CarelessAppends("careless-1", bootstrap, history, randomness.stream("careless-1"), acks="1"),
        CarelessAppends("careless-0", bootstrap, history, randomness.stream("careless-0"), acks="0"),
    ]


def _administrators(
    bootstrap: str, plan: FaultPlan, history: History, randomness: SimulatedRandomness
) -> list[Workload]:
    broker_ids = range(1, plan.brokers + 1)
    return [
        TopicChurn("topic churn", bootstrap, history, randomness.stream("topic churn")),
        Reassignments("reassignments", bootstrap, randomness.stream("reassignments"), broker_ids=broker_ids),
        Elections("elections", bootstrap, randomness.stream("elections")),
        MinIsrChanges("min ISR changes", bootstrap, randomness.stream("min ISR changes")),
        RecordDeletions("record deletions", bootstrap, history, randomness.stream("record deletions")),
    ]


def _readers(bootstrap: str, history: History, randomness: SimulatedRandomness) -> list[Workload]:
    def told(**settings: str) -> dict[str, str]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {"bootstrap.servers": bootstrap, **named}

    def drawing(name: str) -> tuple[str, History, SimulatedRandomness]:
        return name, history, randomness.stream(name)

    return [
        Reader(*drawing("following reader"), told(auto_offset_reset="earliest")),
        Reader(
            *drawing("returning reader"),
            told(auto_offset_reset="none", isolation_level="read_committed"),
            session_polls_max=24,
        ),
        Reader(*drawing("near reader"), told(auto_offset_reset="none", client_rack=_READER_RACK)),
        Reader(*drawing("tolerant reader"), told(auto_offset_reset="earliest"), partitions=[UNCLEAN_PARTITION]),
    ]
