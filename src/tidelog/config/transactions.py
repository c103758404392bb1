"""The settings of transactions and of the topic that remembers them. Kafka's names, types and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.config.groups import GroupConfig
from tidelog.config.kinds import BOOLEAN, integer, short
from tidelog.config.settings import setting

_READER: Final = "broker.transaction_settings"
_LEADER: Final = "broker.transaction_membership"
_TOPIC: Final = "broker.internal_topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig(GroupConfig):
    """What a broker needs to know to look after transactions."""

    # fmt: off
    # Transactional ids.
    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms", integer(1), "900000",
        "Longest time that a producer may ask for until its transaction is aborted; not for those that take part in a two-phase commit.",
        read_by=_READER
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms", integer(1), "604800000", "A transactional id without a transaction for so long is forgotten.",
        read_by=_READER
    )
    transaction_expired_check_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", integer(1), "3600000",
        "How often expired transactional ids are looked for.", read_by=_READER
    )
    transaction_timed_out_check_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", integer(1), "10000",
        "How much later than its time is up a transaction may be aborted.", read_by=_READER
    )
    transaction_two_phase_commit_enable: bool = setting(
        "transaction.two.phase.commit.enable", BOOLEAN, "false",
        "Whether producers may take part in a two-phase commit (KIP-939): their transactions never time out.", read_by=_READER
    )
    transaction_version: int = setting(
        "tidelog.transaction.version", integer(0, 2), "2",
        "The level of the feature transaction.version (KIP-890): 2 gives each transaction an epoch of its own, 0 and 1 are for a cluster that "
        "is being upgraded.", read_by=_READER
    )
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable", BOOLEAN, "true",
        "Whether a leader asks the coordinator before it takes the first records of a transaction.",
        read_by=_LEADER, dynamic=True
    )
    transaction_join_retry_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.ms", integer(1), "20",
        "How long a leader waits before it asks again to add a partition to a transaction, while the one before is ending.",
        read_by=_LEADER
    )
    transaction_join_retry_max_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.max.ms", integer(0), "100",
        "How long a leader asks again before the producer is told to.", read_by=_LEADER
    )

    # The topic.
    transaction_topic_num_partitions: int = setting(
        "transaction.state.log.num.partitions", integer(1), "50",
        "Partitions of __transaction_state; they must not change after it was created.", read_by=_TOPIC
    )
    transaction_topic_replication_factor: int = setting(
        "transaction.state.log.replication.factor", short(1), "3",
        "Replicas of __transaction_state. It is created when so many brokers live, and no transaction is served before.", read_by=_TOPIC
    )
    transaction_topic_min_insync_replicas: int = setting(
        "transaction.state.log.min.isr", integer(1), "2",
        "How many replicas must hold a step of a transaction before it counts; all of them, where there are fewer.", read_by=_TOPIC
    )
    transaction_topic_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes", integer(1), "104857600",
        "Segment size of __transaction_state, small, so that compaction has work early.", read_by=_TOPIC
    )
    # fmt: on
