from __future__ import annotations

from dataclasses import replace

from tests.simulation.test_checkers import NEW_ID, batches, heard, may_lose, replica, says, snapshot, state
from tidelog.simulation.checkers import StandingHasCommitted

WORDS = "committed up to 2, broker 3 ends at 1"


def test_a_member_that_lacks_what_a_dead_leader_committed_is_noticed() -> None:
    before = snapshot(
        replica(1, batches(1, 1), hw=2, leads=True), replica(2, batches(1, 1), hw=1), registry=state(1, (1, 2))
    )
    behind = snapshot(replica(2, batches(1, 1), hw=1, epoch=2, leads=True), replica(3, batches(1), hw=1, epoch=2))
    says(
        StandingHasCommitted(),
        WORDS,
        before,
        replace(behind, states=snapshot(registry=state(2, (2, 3), epoch=2)).states),
    )


def test_a_replica_without_standing_may_lack_anything() -> None:
    views = replica(1, batches(1, 1), hw=2, leads=True), replica(3, batches(1), hw=1)
    lost = replace(state(1, (1, 3)), lost=(3,))
    assert (
        heard(StandingHasCommitted(), snapshot(*views, registry=state(1, (1, 2))), snapshot(*views, registry=lost))
        == []
    )


def test_an_eligible_replica_must_have_what_was_committed_without_it() -> None:
    views = replica(1, batches(1, 1), hw=2, leads=True), replica(3, batches(1), hw=1)
    says(StandingHasCommitted(), WORDS, snapshot(*views, registry=replace(state(1, (1,)), eligible=(2, 3))))


def test_a_topic_of_the_same_name_begins_with_nothing_committed() -> None:
    before = snapshot(replica(1, batches(1, 1), hw=2, leads=True), registry=state(1, (1,)))
    after = snapshot(
        replica(3, batches(1), hw=0, leads=True, topic_id=NEW_ID), registry=state(3, (3,), topic_id=NEW_ID)
    )
    assert heard(StandingHasCommitted(), before, after) == []


def test_a_topic_that_may_lose_records_claims_nothing() -> None:
    views = replica(1, batches(1, 1), hw=2, leads=True), replica(3, batches(1), hw=1)
    assert heard(StandingHasCommitted(may_lose), snapshot(*views, registry=state(1, (1, 3)))) == []


def test_a_leader_outside_of_its_isr_is_noticed() -> None:
    says(
        StandingHasCommitted(may_lose),
        "broker 3 leads and is not in the ISR [1, 2]",
        snapshot(registry=state(3, (1, 2))),
    )
