"""Followers against real leaders: what they copy, what they refuse to use, and how they get over what goes wrong."""

from __future__ import annotations

import pytest

from tests.broker.replication_rig import T0, Rig, rig
from tidelog.config import LogConfig
from tidelog.model import TopicPartition
from tidelog.runtime.instruments import MemoryCounter

KEYS = tuple(TopicPartition("t", index) for index in range(5))


def same_logs(one: Rig, *keys: TopicPartition) -> bool:
    """Whether all replicas hold the same bytes."""
    return all(len({broker.values(key) for broker in one.brokers.values()}) == 1 for key in keys or (T0,))


def committed(one: Rig, offset: int, key: TopicPartition = T0) -> bool:
    """Whether every replica knows everything below the offset to be committed."""
    return all(broker.replicas.partition(key).high_watermark == offset for broker in one.brokers.values())


def test_what_a_leader_appends_its_followers_hold_and_know_committed() -> None:
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a", b"b")
        assert one.until(lambda: one.brokers[1].partition.high_watermark == 2) < 50
        one.until(lambda: committed(one, 2), within_ms=600)
        assert same_logs(one)


def test_idle_partitions_do_not_slow_a_busy_one() -> None:
    keys = tuple(TopicPartition("t", index) for index in range(200))
    with rig(2) as one:
        one.tell(1, 0, keys=keys)
        one.world.run_for_ms(1_500)
        fetches = one.brokers[1].runtime.metrics.counter("kafka_network_requestmetrics_requests_total", request="Fetch")
        assert isinstance(fetches, MemoryCounter)
        before = fetches.reading
        one.brokers[1].produce(b"x", topic_partition=keys[150])
        took = one.until(lambda: one.brokers[1].replicas.partition(keys[150]).high_watermark == 1)
        assert took < 10
        assert fetches.reading - before <= 2


def test_a_follower_that_joins_late_catches_up_on_everything() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1,), to=(1,))
        for number in range(50):
            one.brokers[1].produce(b"%d" % number * 1_000)
        one.tell(1, 0, isr=(1,))
        one.until(lambda: committed(one, 50))
        assert same_logs(one)
        one.until(lambda: one.states[T0].isr == (1, 2))


def test_a_partition_that_comes_while_a_fetch_is_parked_does_not_wait_for_it() -> None:
    with rig(2) as one:
        one.tell(1, 0, keys=KEYS[:1])
        one.world.run_for_ms(3_000)  # All is quiet: a fetch is parked for half a second.
        one.tell(1, 0, keys=KEYS[1:])
        one.brokers[1].produce(b"x", topic_partition=KEYS[3])
        assert one.until(lambda: one.brokers[1].replicas.partition(KEYS[3]).high_watermark == 1) < 100
        one.brokers[1].produce(b"y", topic_partition=KEYS[0])
        assert one.until(lambda: one.brokers[1].replicas.partition(KEYS[0]).high_watermark == 1) < 100


def test_a_word_about_the_isr_alone_does_not_disturb_the_fetch_under_way() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.world.run_for_ms(2_000)
        opened = one.trace().count("connection")
        for _ in range(5):
            one.tell(1, 0)
            one.world.run_for_ms(50)
        one.brokers[1].produce(b"x")
        assert one.until(lambda: one.brokers[1].partition.high_watermark == 1) < 20
        assert one.trace().count("connection") == opened


def test_n05_a_leader_that_went_dark_and_came_back_elsewhere_is_followed_there_at_once() -> None:
    """Its old address swallows everything: neither the fetch under way nor a new connection would ever be answered."""
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.world.run_for_ms(2_000)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2", "broker-3"])
        one.world.run_for_ms(2_500)
        one.hosts[1] = "broker-3"  # Where somebody answers.
        one.tell(3, 1, isr=(2, 3), to=(3,))
        one.tell(1, 2, isr=(1, 2, 3), to=(2,))
        one.until(lambda: one.brokers[3].fetch_sessions.followers.has(2), within_ms=1_000)


def test_r04_a_follower_of_another_epoch_is_fenced_and_goes_on_when_it_hears_of_the_new_one() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"a")
        one.until(lambda: committed(one, 1))
        one.tell(1, 1, to=(1,))  # The follower misses it.
        one.brokers[1].produce(b"b")
        one.until(lambda: list(one.brokers[2].fetchers.failed) == [T0])
        one.world.run_for_ms(3_000)
        assert one.brokers[2].partition.log.log_end_offset == 1
        assert one.brokers[1].partition.high_watermark == 1, "nobody else holds it"
        one.tell(1, 2)
        one.until(lambda: committed(one, 2))
        assert same_logs(one)


def test_r04_a_leader_that_has_not_heard_yet_is_asked_again_soon() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.until(lambda: one.brokers[2].partition.leader_epoch == 0)
        one.tell(1, 1, to=(2,))
        one.world.run_for_ms(120)
        one.tell(1, 2, to=(1,))
        one.tell(1, 2, to=(2,))
        one.brokers[1].produce(b"a")
        assert one.until(lambda: one.brokers[1].partition.high_watermark == 1) < 500


@pytest.mark.parametrize("delay_ms", [0, 20, 60, 100])
def test_r05_r08_an_answer_of_an_earlier_epoch_is_not_used(delay_ms: int) -> None:
    """The old leader's records, or its order to truncate, arrive after the follower has been told of another leader."""
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")
        one.until(lambda: committed(one, 1))
        one.world.fabric.faults.slow("broker-1", "broker-3", latency_ms=(100, 100))
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.brokers[1].produce(b"only the old leader's")
        one.world.run_for_ms(delay_ms)
        one.tell(2, 1, isr=(2, 3), to=(2, 3))
        one.brokers[2].produce(b"the new leader's")
        one.world.run_for_ms(3_000)
        one.world.fabric.faults.heal()
        one.tell(2, 2, isr=(2, 3))
        one.until(lambda: same_logs(one))
        assert b"the new leader's" in one.brokers[3].values()
        assert b"only the old leader's" not in one.brokers[3].values()


def test_r06_a_tail_the_leader_never_had_is_cut_before_anything_else() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"kept")
        one.until(lambda: committed(one, 1))
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.brokers[1].produce(b"lost 1")
        one.brokers[1].produce(b"lost 2")
        one.tell(2, 1, isr=(2,), to=(2,))
        one.brokers[2].produce(b"new")
        one.world.fabric.faults.heal()
        one.tell(2, 2, isr=(2,))
        one.until(lambda: committed(one, 2))
        assert same_logs(one)
        assert b"new" in one.brokers[1].values()
        assert "log truncated" in one.trace()


def test_a_follower_below_the_leaders_log_begins_anew_where_that_begins() -> None:
    with rig(2) as one:
        config = LogConfig(segment_bytes=1_000, retention_bytes=0)
        one.tell(1, 0, isr=(1,), to=(1,), config=config)
        for _ in range(20):
            one.brokers[1].produce(bytes(300))
        leader = one.brokers[1].partition
        leader.log.delete_old_segments(one.brokers[1].runtime.clock.wall_ms(), leader.high_watermark)
        assert leader.log.log_start_offset > 0
        one.tell(1, 0, isr=(1,), config=config)
        one.until(lambda: committed(one, 20))
        assert one.brokers[2].partition.log.log_start_offset == leader.log.log_start_offset
        assert same_logs(one)


def test_a_lost_connection_is_made_again_and_no_partition_is_forgotten() -> None:
    with rig(2) as one:
        one.tell(1, 0, keys=KEYS)
        one.world.run_for_ms(1_000)
        for round_number in range(1, 4):
            one.world.fabric.faults.reset("broker-1", "broker-2")
            for key in KEYS:
                one.brokers[1].produce(b"x", topic_partition=key)
            one.until(lambda: all(committed(one, round_number, key) for key in KEYS), within_ms=2_000)  # noqa: B023
        assert same_logs(one, *KEYS)
        assert "replication interrupted" in one.trace()
        assert "replication resumed" in one.trace()


def test_f01_a_leader_that_forgot_the_session_is_told_everything_again() -> None:
    with rig(2) as one:
        one.tell(1, 0, keys=KEYS)
        one.world.run_for_ms(2_000)
        one.brokers[1].fetch_sessions.followers.end(2)
        for key in KEYS:
            one.brokers[1].produce(b"x", topic_partition=key)
        assert one.until(lambda: all(committed(one, 1, key) for key in KEYS)) < 1_500


def test_damaged_records_are_never_stored() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.brokers[1].produce(b"damaged on the leader's disk")
        (segment,) = one.brokers[1].partition.log.segments
        one.world.node("broker-1").disk.flip_bit(segment.path(".log"), position=80)
        one.world.fabric.faults.heal()
        one.until(lambda: "replicated data refused" in one.trace())
        assert one.brokers[2].partition.log.log_end_offset == 0


def test_a_follower_with_flush_messages_names_only_what_it_has_flushed() -> None:
    with rig(2) as one:
        one.tell(1, 0, config=LogConfig(flush_messages=1))
        one.brokers[1].produce(b"a")
        one.until(lambda: one.brokers[2].partition.log.log_end_offset == 1)
        follower = one.brokers[2].partition.log
        assert follower.settled_end_offset == 0, "written, and not flushed yet"
        assert one.brokers[1].partition.high_watermark == 0
        one.until(lambda: one.brokers[1].partition.high_watermark == 1)
        assert follower.settled_end_offset == 1


def test_a_full_disk_pauses_a_follower_and_space_lets_it_go_on() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"a")
        one.until(lambda: committed(one, 1))
        disk = one.world.node("broker-2").disk
        disk.fill_up()
        one.brokers[1].produce(b"b")
        one.until(lambda: "disk full" in one.trace())
        disk.free_up()
        one.until(lambda: committed(one, 2), within_ms=3_000)
        assert same_logs(one)


def test_a_throttled_follower_that_is_behind_takes_no_more_than_its_rate() -> None:
    settings = {"follower.replication.throttled.rate": "100000", "replica.fetch.max.bytes": "50000"}
    with rig(2, settings=settings) as one:
        config = LogConfig(follower_throttled_replicas=("0:2",))
        one.tell(1, 0, isr=(1,), to=(1,), config=config)
        for _ in range(40):
            one.brokers[1].produce(bytes(24_900))
        one.tell(1, 0, isr=(1,), config=config)
        took = one.until(lambda: one.brokers[2].partition.log.log_end_offset == 40, within_ms=20_000)
        assert 8_000 < took < 14_000
        one.until(lambda: one.states[T0].isr == (1, 2))
        one.brokers[1].produce(b"in sync: not throttled")
        assert one.until(lambda: one.brokers[1].partition.high_watermark == 41) < 1_000


def test_a_leader_gives_throttled_followers_no_more_than_its_rate() -> None:
    settings = {"leader.replication.throttled.rate": "100000", "replica.fetch.max.bytes": "50000"}
    with rig(2, settings=settings) as one:
        config = LogConfig(leader_throttled_replicas=("*",))
        one.tell(1, 0, isr=(1,), to=(1,), config=config)
        for _ in range(40):
            one.brokers[1].produce(bytes(24_900))
        one.tell(1, 0, isr=(1,), config=config)
        took = one.until(lambda: one.brokers[2].partition.log.log_end_offset == 40, within_ms=20_000)
        assert 8_000 < took < 14_000


def test_leaders_that_cannot_be_found_are_looked_for_again() -> None:
    with rig(2) as one:
        one.world.fabric.faults.isolate("broker-1")
        one.tell(1, 0)
        one.world.run_for_ms(5_000)
        one.world.fabric.faults.heal()
        one.brokers[1].produce(b"a")
        one.until(lambda: committed(one, 1), within_ms=40_000)
