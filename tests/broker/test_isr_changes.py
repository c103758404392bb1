"""ISR changes: who leaves, who comes back, and what becomes of a wish the controller does not grant."""

from __future__ import annotations

from tests.broker.replication_rig import T0, Rig, rig
from tidelog.model import ErrorCode, TopicPartition

QUICK = {"replica.lag.time.max.ms": "1000"}


def proposed(one: Rig) -> list[tuple[tuple[int, int], ...]]:
    """The ISRs that leaders asked for, with the epochs of the brokers."""
    return [
        tuple((state.broker_id, state.broker_epoch) for state in row.new_isr_with_epochs)
        for request in one.proposals
        for topic in request.topics
        for row in topic.partitions
    ]


def test_a_silent_follower_leaves_the_isr_and_comes_back_when_it_has_caught_up() -> None:
    with rig(3, settings=QUICK) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")
        one.until(lambda: one.brokers[1].partition.high_watermark == 1)
        one.world.fabric.faults.partition(["broker-3"], ["broker-1", "broker-2"])
        one.brokers[1].produce(b"b")
        took = one.until(lambda: one.states[T0].isr == (1, 2))
        assert 900 < took < 1_700, "1 to 1.5 times the setting"
        one.until(lambda: one.brokers[1].partition.high_watermark == 2)
        one.world.fabric.faults.heal()
        one.until(lambda: one.states[T0].isr == (1, 2, 3), within_ms=3_000)
        assert proposed(one) == [((1, 101), (2, 102)), ((1, 101), (2, 102), (3, 103))]
        assert "isr shrunk partition=t-0 brokers=3 isr=1,2" in one.trace()
        assert "isr expanded partition=t-0 brokers=3 isr=1,2,3" in one.trace()


def test_a_change_that_the_leader_hears_of_before_its_answer_is_logged_like_any_other() -> None:
    with rig(3, settings=QUICK) as one:
        one.tells_before_it_answers = True
        one.tell(1, 0, isr=(1, 2))
        one.brokers[1].produce(b"a")
        one.until(lambda: one.brokers[1].partition.isr == (1, 2, 3), within_ms=3_000)
        one.world.run_for_ms(100)
        assert one.trace().count("isr expanded partition=t-0 brokers=3 isr=1,2,3") == 1


def test_followers_that_fetch_and_get_nothing_stay() -> None:
    with rig(3, settings=QUICK) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.world.run_for_ms(10_000)
        one.brokers[1].produce(b"a")
        one.world.run_for_ms(5_000)
        assert one.proposals == []


def test_a_record_after_long_silence_throws_nobody_out() -> None:
    """The follower's last word is from the last time all partitions were looked at; an append must not make it late at once."""
    with rig(2, settings=QUICK) as one:
        one.tell(1, 0)
        one.world.run_for_ms(20_000)
        for _ in range(200):
            one.brokers[1].produce(b"a")
            one.world.run_for_ms(37)
        assert one.proposals == []


def test_a_controller_that_is_none_is_asked_again_until_one_decides() -> None:
    with rig(2, settings=QUICK) as one:
        one.verdicts = [ErrorCode.NOT_CONTROLLER] * 3
        one.tell(1, 0, isr=(1,))
        one.until(lambda: one.states[T0].isr == (1, 2))
        assert len(one.proposals) == 4
        one.until(lambda: one.brokers[1].partition.isr == (1, 2))


def test_an_error_of_the_controller_is_no_verdict() -> None:
    with rig(2) as one:
        one.verdicts = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NETWORK_EXCEPTION]
        one.tell(1, 0, isr=(1,))
        one.until(lambda: one.brokers[1].partition.isr == (1, 2))
        assert len(one.proposals) == 3


def test_a_refused_member_is_proposed_again_with_its_next_fetch() -> None:
    with rig(2) as one:
        one.verdicts = [ErrorCode.INELIGIBLE_REPLICA]
        one.tell(1, 0, isr=(1,))
        one.until(lambda: one.brokers[1].partition.isr == (1, 2))
        assert "isr change refused partition=t-0 reason=INELIGIBLE_REPLICA" in one.trace()


def test_a_leader_that_is_behind_waits_for_what_the_controller_tells() -> None:
    with rig(2) as one:
        one.verdicts = [ErrorCode.INVALID_UPDATE_VERSION]
        one.tell(1, 0, isr=(1,))
        one.until(lambda: len(one.proposals) == 1)
        one.world.run_for_ms(3_000)
        assert len(one.proposals) == 1, "it asks for nothing while it does not know where it stands"
        one.tell(1, 0, isr=(1,))
        one.until(lambda: one.brokers[1].partition.isr == (1, 2))


def test_r15_a_follower_that_registered_anew_is_proposed_under_its_new_epoch() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1,), to=(1,))
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.tell(1, 0, isr=(1,))
        one.world.fabric.faults.heal()
        one.until(lambda: one.states[T0].isr == (1, 2))
        one.epochs[2] = 500
        one.tell(1, 0, isr=(1,), to=(1,))  # The controller has thrown its former life out.
        one.until(lambda: one.states[T0].isr == (1, 2))
        assert proposed(one)[-1] == ((1, 101), (2, 500))


def test_wishes_of_many_partitions_go_together() -> None:
    keys = tuple(TopicPartition("t", index) for index in range(100))
    with rig(2) as one:
        one.tell(1, 0, isr=(1,), keys=keys)
        one.until(lambda: all(one.states[key].isr == (1, 2) for key in keys))
        assert len(one.proposals) < 10


def test_a_verdict_that_was_overtaken_by_the_controllers_word_is_dropped() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1,))
        one.until(lambda: len(one.proposals) == 1)
        one.tell(1, 1, isr=(1,))  # While the proposal is under way.
        one.until(lambda: one.brokers[1].partition.isr == (1, 2))
        leadership = one.brokers[1].partition.leadership
        assert leadership is not None
        assert (leadership.leader_epoch, leadership.partition_epoch) == (1, one.states[T0].partition_epoch)
