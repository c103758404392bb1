"""The topics of the workloads, and what is promised of each.

`safe` keeps what it acknowledged to acks=all: three replicas, two of which must have a record, and none is elected that lacks one.
`ledger` and `copies` are as safe, and written in transactions only. `unclean` keeps its leader instead, whatever that costs. Topics named
`churn-...` are as safe as `safe` while they live.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.client import Admin, ClientConfig, ClientError, NewTopic, TopicUnavailable
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.faults.plan import FaultPlan
from tidelog.simulation.workloads.history import COPIES, LEDGER, OFFSETS, SAFE, TRANSACTIONS, UNCLEAN
from tidelog.simulation.workloads.workload import PATIENCE

SAFE_PARTITIONS: Final = tuple(TopicPartition(SAFE, index) for index in range(2))
LEDGER_PARTITIONS: Final = tuple(TopicPartition(LEDGER, index) for index in range(2))
COPIES_PARTITION: Final = TopicPartition(COPIES, 0)
UNCLEAN_PARTITION: Final = TopicPartition(UNCLEAN, 0)
OFFSETS_PARTITION: Final = TopicPartition(OFFSETS, 0)
"""Holds all groups; it is made when the first of them asks for its coordinator."""
TRANSACTIONS_PARTITION: Final = TopicPartition(TRANSACTIONS, 0)
"""Knows all transactional ids; made likewise."""
REPLICAS: Final = 3
_ATTEMPTS_MAX: Final = 60
_BETWEEN_ATTEMPTS_S: Final = 0.5

# Nothing expires by itself: the history could not know what was deleted. What a seed draws for the brokers is not said here again.
_COMMON: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
SAFE_CONFIGS: Final = {**_COMMON, "min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
UNCLEAN_CONFIGS: Final = {**_COMMON, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


async def make_topics(cluster: SimulatedCluster, plan: FaultPlan, runtime: Runtime) -> None:
    """Create all but the internal ones. Raises TopicUnavailable where the cluster is not able to within half a minute."""
    replicas = min(REPLICAS, plan.brokers)
    wanted = [
        NewTopic(name=SAFE, partition_count=len(SAFE_PARTITIONS), replication_factor=replicas, configs=SAFE_CONFIGS),
        NewTopic(
            name=LEDGER, partition_count=len(LEDGER_PARTITIONS), replication_factor=replicas, configs=SAFE_CONFIGS
        ),
        NewTopic(name=COPIES, partition_count=1, replication_factor=replicas, configs=SAFE_CONFIGS),
        NewTopic(name=UNCLEAN, partition_count=1, replication_factor=replicas, configs=UNCLEAN_CONFIGS),
    ]
    config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap, **PATIENCE})
    async with Admin.connect(config, runtime) as admin:
        for topic in wanted:
            await _make(admin, topic)


async def _make(admin: Admin, topic: NewTopic) -> None:
    """Ask until the topic is there: brokers that have only just started may be too few at first."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    for _ in range(_ATTEMPTS_MAX):
        try:
            (result,) = await admin.create_topics([topic])
        except ClientError:
            continue
        code = result.code
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        await asyncio.sleep(_BETWEEN_ATTEMPTS_S)
    raise TopicUnavailable(topic.name, code)
