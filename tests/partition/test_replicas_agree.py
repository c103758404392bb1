"""Three replicas through whatever may happen to them: nothing acknowledged is lost, and no two of them disagree on what is committed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.partition.small_cluster import BROKERS, LAG_MS, SmallCluster
from tests.partition.what_holds import check, check_healed
from tidelog.model import Acks

ANY_BROKER = st.sampled_from(BROKERS)
ANY_ACKS = st.sampled_from((Acks.ALL, Acks.LEADER))


class Fate(RuleBasedStateMachine):
    """Elections, crashes, pauses, and messages that are late, lost, repeated and reordered, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = SmallCluster()

    @initialize(
        isr=st.sampled_from(((1, 2, 3), (1, 2), (1,))),
        min_isr=st.integers(1, 2),
        flush_messages=st.sampled_from((None, 1)),
    )
    def begin(self, isr: tuple[int, ...], min_isr: int, flush_messages: int | None) -> None:
        self.cluster = SmallCluster(isr=isr, min_isr=min_isr, flush_messages=flush_messages)

    # Clients.

    @rule(followers=st.sets(ANY_BROKER).map(sorted), count=st.integers(1, 3))
    def produce_while_only_these_fetch(self, followers: list[int], count: int) -> None:
        self.cluster.produce_to(followers, count)

    @rule(broker_id=ANY_BROKER, acks=ANY_ACKS)
    def produce_to_whoever_may_lead(self, broker_id: int, acks: Acks) -> None:
        self.cluster.produce(broker_id, acks)

    @rule(broker_id=ANY_BROKER)
    def delete_what_is_committed(self, broker_id: int) -> None:
        self.cluster.forget(broker_id)

    # Followers.

    @rule(broker_id=ANY_BROKER)
    def replicate(self, broker_id: int) -> None:
        self.cluster.replicate(broker_id)

    @rule(broker_id=ANY_BROKER)
    def crawl(self, broker_id: int) -> None:
        self.cluster.crawl(broker_id)

    @rule()
    def calm(self) -> None:
        self.cluster.calm()

    @rule(broker_id=ANY_BROKER)
    def send_a_fetch(self, broker_id: int) -> None:
        self.cluster.ask(broker_id)

    @rule(broker_id=ANY_BROKER)
    def serve_a_fetch(self, broker_id: int) -> None:
        self.cluster.serve(broker_id)

    @rule(broker_id=ANY_BROKER)
    def receive_an_answer(self, broker_id: int) -> None:
        self.cluster.receive(broker_id)

    # The controller.

    @rule(broker_id=ANY_BROKER)
    def tell(self, broker_id: int) -> None:
        self.cluster.tell(broker_id)

    @rule(broker_id=ANY_BROKER)
    def hand_over(self, broker_id: int) -> None:
        self.cluster.hand_over(broker_id)

    @rule(broker_id=ANY_BROKER, age=st.integers(1, 4))
    def tell_an_old_state(self, broker_id: int, age: int) -> None:
        self.cluster.tell(broker_id, age=age)

    @rule(broker_id=ANY_BROKER)
    def elect(self, broker_id: int) -> None:
        self.cluster.elect(broker_id)

    @rule(broker_id=ANY_BROKER)
    def expire_a_session(self, broker_id: int) -> None:
        self.cluster.expire(broker_id)

    @rule(broker_id=ANY_BROKER)
    def register_again(self, broker_id: int) -> None:
        self.cluster.register(broker_id)

    # ISR changes.

    @rule(broker_id=ANY_BROKER)
    def decide_on_an_isr_change(self, broker_id: int) -> None:
        self.cluster.decide(broker_id)

    @rule(broker_id=ANY_BROKER, is_lost=st.booleans())
    def answer_an_isr_change(self, broker_id: int, *, is_lost: bool) -> None:
        self.cluster.answer_change(broker_id, is_lost=is_lost)

    @rule(broker_id=ANY_BROKER, duration_ms=st.sampled_from((1.0, 0.6 * LAG_MS, 1.5 * LAG_MS)))
    def look_at_the_isr_after(self, broker_id: int, duration_ms: float) -> None:
        self.cluster.wait(broker_id, duration_ms)

    # Machines.

    @rule(broker_id=ANY_BROKER, checkpoints=st.booleans())
    def kill(self, broker_id: int, *, checkpoints: bool) -> None:
        self.cluster.kill(broker_id, checkpoints=checkpoints)

    @rule(broker_id=ANY_BROKER, keep=st.sampled_from((0.0, 0.5, 0.8)))
    def cut_power(self, broker_id: int, keep: float) -> None:
        self.cluster.cut_power(broker_id, keep)

    @rule(broker_id=ANY_BROKER)
    def flush(self, broker_id: int) -> None:
        self.cluster.flush(broker_id)

    @rule(broker_id=ANY_BROKER)
    def start(self, broker_id: int) -> None:
        self.cluster.start(broker_id)

    # What holds.

    @invariant()
    def nothing_is_lost_and_nobody_disagrees(self) -> None:
        self.cluster.answer_producers()
        check(self.cluster)

    def teardown(self) -> None:
        self.cluster.heal()
        check_healed(self.cluster)


TestFate = pytest.mark.slow(
    pytest.mark.timeout(600)(Fate.TestCase)
)  # It takes seconds, unless a failure is made small.
TestFate.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
