"""Why a query cannot go on, each in a sentence for the one who started it."""

from __future__ import annotations

from tidelog.model import TopicPartition


class SourceFailed(Exception):
    """Whatever the source could not do; never raised itself."""


class BrokersSilent(SourceFailed):
    """Nobody, or not the one who had to, answered in time; says who was asked and what came of it."""


class TopicMissing(SourceFailed):
    """A topic, or a partition of it, that a query is to read is not there."""


class TopicRefused(SourceFailed):
    """A topic that may well be there, but that brokers will not, or cannot, tell about."""


class DataLost(SourceFailed):
    """Records that the query was to read are gone, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. To go on without these records, set the option failOnDataLoss to false")


class ReadStuck(SourceFailed):
    """A task waited too long for records that are there, or met an answer that waiting does not cure."""

    def __init__(self, topic_partition: TopicPartition, what: str) -> None:
        super().__init__(f"reading {topic_partition} failed: {what}")
