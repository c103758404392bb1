"""KIP-73: how fast replicas that are behind may catch up."""

from __future__ import annotations

from tidelog.broker.replication_quota import RateQuota, ReplicationQuotas
from tidelog.config import BrokerConfig, LogConfig


def test_a_rate_is_an_average_over_the_last_ten_seconds() -> None:
    quota = RateQuota(lambda: 1_000)
    quota.record(1_000, 0)
    assert not quota.is_exceeded(0), "a second's worth may go at once"
    quota.record(1, 0)
    assert quota.is_exceeded(500)
    assert not quota.is_exceeded(2_000)
    quota.record(5_000, 2_000)
    assert quota.is_exceeded(5_000)
    assert not quota.is_exceeded(6_002)
    assert not quota.is_exceeded(60_000), "what is long ago does not count"


def test_silence_is_not_saved_up() -> None:
    quota = RateQuota(lambda: 1_000)
    quota.record(1, 0)
    quota.record(5_000, 100_000)
    assert quota.is_exceeded(100_000)


def test_a_rate_may_be_changed_while_it_is_in_force() -> None:
    rate = 1_000
    quota = RateQuota(lambda: rate)
    quota.record(2_000, 0)
    assert quota.is_exceeded(0)
    rate = 3_000
    assert not quota.is_exceeded(0)


def test_lists_name_partition_and_broker_or_everybody() -> None:
    quotas = ReplicationQuotas(2, BrokerConfig)
    listed = LogConfig(leader_throttled_replicas=("0:1", "1:2"), follower_throttled_replicas=("*",))
    assert [quotas.is_giving_throttled(listed, index) for index in (0, 1)] == [False, True]
    assert quotas.is_taking_throttled(listed, 7)
    assert not quotas.is_taking_throttled(LogConfig(), 7)
