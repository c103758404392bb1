"""Who leads and who is in sync, partition by partition: the table of elections, and standing."""

from __future__ import annotations

import dataclasses

import pytest

from tests.controller.clusters import state
from tidelog.controller import NO_BROKER, PartitionState, ReplicaEnd
from tidelog.controller.election import (
    Presence,
    Rules,
    greatest,
    is_waiting_for_ends,
    preferred,
    reconsidered,
)

CLEAN = Rules(min_isr=1)
TWO = Rules(min_isr=2)
UNCLEAN = Rules(min_isr=1, is_unclean_allowed=True)


def here(
    *live: int, leaving: tuple[int, ...] = (), restarted: tuple[int, ...] = (), forgetful: tuple[int, ...] = ()
) -> Presence:
    return Presence(
        live=frozenset(live),
        leaving=frozenset(leaving),
        restarted=frozenset(restarted) | frozenset(forgetful),
        forgetful=frozenset(forgetful),
    )


def told(after: PartitionState) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return after.leader, after.isr, after.eligible, after.lost


def test_state_that_is_right_is_returned_as_it_is() -> None:
    before = state((1, 2, 3))
    assert reconsidered(before, here(1, 2, 3), TWO) is before


def test_leaderless_state_that_cannot_be_helped_is_returned_as_it_is() -> None:
    before = state((1, 2), leader=NO_BROKER, isr=(1,))
    assert reconsidered(before, here(2), CLEAN) is before


# The table of elections.


def test_dead_leader_is_followed_by_the_first_live_member_of_the_isr() -> None:
    after = reconsidered(state((1, 2, 3), isr=(3, 2, 1)), here(2, 3), CLEAN)
    assert (told(after), after.leader_epoch, after.partition_epoch) == ((2, (3, 2), (), ()), 4, 8)


def test_dead_leader_without_heirs_leaves_the_isr_as_it_is() -> None:
    after = reconsidered(state((1, 2, 3), isr=(1,)), here(2, 3), CLEAN)
    assert (told(after), after.leader_epoch) == ((NO_BROKER, (1,), (), ()), 4)


def test_last_members_that_die_together_all_stay() -> None:
    assert told(reconsidered(state((1, 2, 3), isr=(1, 2)), here(3), CLEAN)) == (NO_BROKER, (1, 2), (), ())


def test_dead_follower_leaves_the_isr_under_a_new_leader_epoch() -> None:
    after = reconsidered(state((1, 2, 3)), here(1, 3), CLEAN)
    assert (told(after), after.leader_epoch) == ((1, (1, 3), (), ()), 4)


def test_leader_that_is_alone_stays_in_its_isr() -> None:
    assert told(reconsidered(state((1, 2, 3)), here(1), CLEAN)) == (1, (1,), (), ())


def test_member_that_returns_leads_again() -> None:
    dead = state((1, 2, 3), leader=NO_BROKER, isr=(1,))
    assert told(reconsidered(dead, here(1, 2, restarted=(1,)), CLEAN)) == (1, (1,), (), ())


def test_unclean_election_takes_the_first_live_replica_and_says_so() -> None:
    after = reconsidered(state((1, 2, 3), isr=(1,)), here(2, 3), UNCLEAN)
    assert (told(after), after.is_recovering) == ((2, (2,), (), ()), True)


def test_unclean_election_is_not_needed_while_a_member_lives() -> None:
    after = reconsidered(state((1, 2, 3), isr=(1, 3)), here(2, 3), UNCLEAN)
    assert (told(after), after.is_recovering) == ((3, (3,), (), ()), False)


def test_unclean_election_needs_a_live_replica() -> None:
    assert told(reconsidered(state((1, 2)), here(3), UNCLEAN)) == (NO_BROKER, (1, 2), (), ())


def test_preferred_leader_leads_if_it_is_in_sync() -> None:
    after = preferred(state((1, 2), leader=2), here(1, 2))
    assert after is not None
    assert (told(after), after.leader_epoch) == ((1, (1, 2), (), ()), 4)


@pytest.mark.parametrize(
    ("before", "presence"),
    [
        (state((1, 2), leader=2, isr=(2,)), here(1, 2)),
        (state((1, 2), leader=2), here(2)),
        (state((1, 2), leader=2), here(1, 2, leaving=(1,))),
    ],
)
def test_preferred_leader_that_cannot_lead_is_not_elected(before: PartitionState, presence: Presence) -> None:
    assert preferred(before, presence) is None


# Bounces and shutdowns.


def test_bounced_leader_hands_over_and_stays_in_sync_since_it_has_all_it_knew() -> None:
    after = reconsidered(state((1, 2, 3)), here(1, 2, 3, restarted=(1,)), CLEAN)
    assert (told(after), after.leader_epoch) == ((2, (1, 2, 3), (), ()), 4)


def test_bounced_leader_that_is_alone_leads_on_under_a_new_epoch() -> None:
    after = reconsidered(state((1, 2), isr=(1,)), here(1, 2, restarted=(1,)), CLEAN)
    assert (told(after), after.leader_epoch, after.partition_epoch) == ((1, (1,), (), ()), 4, 8)


def test_brokers_that_bounced_together_all_stay_in_sync() -> None:
    after = reconsidered(state((1, 2, 3)), here(1, 2, 3, restarted=(1, 2, 3)), CLEAN)
    assert (told(after), after.leader_epoch) == ((1, (1, 2, 3), (), ()), 4)


def test_bounced_follower_stays_in_sync_unless_it_forgot_something() -> None:
    before = state((1, 2))
    assert reconsidered(before, here(1, 2, restarted=(2,)), CLEAN) is before
    assert told(reconsidered(before, here(1, 2, forgetful=(2,)), CLEAN)) == (1, (1,), (), ())


def test_leader_that_leaves_hands_over() -> None:
    after = reconsidered(state((1, 2, 3)), here(1, 2, 3, leaving=(1,)), CLEAN)
    assert told(after) == (2, (2, 3), (), ())


def test_follower_that_leaves_leaves_the_isr() -> None:
    assert told(reconsidered(state((1, 2, 3)), here(1, 2, 3, leaving=(3,)), CLEAN)) == (1, (1, 2), (), ())


@pytest.mark.parametrize("before", [state((1,)), state((1, 2), isr=(1,))])
def test_leader_that_leaves_without_an_heir_leads_on(before: PartitionState) -> None:
    assert reconsidered(before, here(1, 2, leaving=(1,)), CLEAN) is before


def test_broker_that_leaves_is_no_heir() -> None:
    assert told(reconsidered(state((1, 2)), here(2, leaving=(2,)), CLEAN)) == (NO_BROKER, (1, 2), (), ())


# Who is eligible.


def test_member_that_leaves_an_isr_below_the_minimum_is_eligible() -> None:
    after = reconsidered(state((1, 2, 3), isr=(1, 2)), here(1, 3), TWO)
    assert told(after) == (1, (1,), (2,), ())


def test_member_that_leaves_an_isr_of_at_least_the_minimum_is_not() -> None:
    assert told(reconsidered(state((1, 2, 3)), here(1, 2), TWO)) == (1, (1, 2), (), ())


def test_minimum_is_no_more_than_there_are_replicas() -> None:
    assert told(reconsidered(state((1, 2)), here(1), Rules(min_isr=3))) == (1, (1,), (2,), ())
    assert told(reconsidered(state((1,)), here(1, restarted=(1,)), Rules(min_isr=3))) == (1, (1,), (), ())


def test_eligible_replica_leads_when_no_member_lives() -> None:
    after = reconsidered(state((1, 2, 3), isr=(1,), eligible=(2,)), here(2, 3), TWO)
    assert (told(after), after.is_recovering) == ((2, (2,), (1,), ()), False)


def test_replica_that_is_neither_does_not_lead() -> None:
    assert told(reconsidered(state((1, 2, 3), isr=(1,), eligible=(2,)), here(3), TWO)) == (NO_BROKER, (1,), (2,), ())


def test_eligible_is_preferred_to_unclean() -> None:
    rules = dataclasses.replace(TWO, is_unclean_allowed=True)
    assert told(reconsidered(state((3, 1, 2), isr=(1,), eligible=(2,)), here(2, 3), rules)) == (2, (2,), (1,), ())


# Who comes back having forgotten something (R17).


def test_forgetful_broker_is_not_eligible_any_more() -> None:
    before = state((1, 2, 3), isr=(1,), eligible=(2, 3))
    after = reconsidered(before, here(1, 2, forgetful=(2,)), TWO)
    assert (told(after), after.leader_epoch) == ((1, (1,), (3,), ()), 4)


def test_last_member_that_comes_back_forgetful_stays_the_last_and_does_not_lead() -> None:
    dead = state((1, 2, 3), leader=NO_BROKER, isr=(1,), eligible=(2,))
    after = reconsidered(dead, here(1, 3, forgetful=(1,)), TWO)
    assert told(after) == (NO_BROKER, (1,), (2,), (1,))
    assert not is_waiting_for_ends(after, here(1, 3))
    healed = reconsidered(after, here(1, 2, 3, restarted=(2,)), TWO)
    assert told(healed) == (2, (2,), (), ())


def test_members_that_come_back_forgetful_one_by_one_wait_for_each_other() -> None:
    dead = state((1, 2), leader=NO_BROKER)
    first = reconsidered(dead, here(1, forgetful=(1,)), CLEAN)
    assert told(first) == (NO_BROKER, (2,), (), (1,))
    assert not is_waiting_for_ends(first, here(1))
    second = reconsidered(first, here(1, 2, forgetful=(2,)), CLEAN)
    assert told(second) == (NO_BROKER, (2,), (), (1, 2))
    assert is_waiting_for_ends(second, here(1, 2))
    assert not is_waiting_for_ends(second, here(1))
    elected = greatest(second, {1: ReplicaEnd(4, 90), 2: ReplicaEnd(4, 80)})
    assert (told(elected), elected.leader_epoch) == ((1, (1,), (), ()), 6)


def test_member_that_comes_back_whole_leads_whoever_forgot() -> None:
    first = state((1, 2), leader=NO_BROKER, isr=(2,), lost=(1,))
    assert told(reconsidered(first, here(1, 2, restarted=(2,)), CLEAN)) == (2, (2,), (), ())


def test_forgetful_leader_that_bounced_hands_over_and_is_nothing_any_more() -> None:
    after = reconsidered(state((1, 2, 3)), here(1, 2, 3, forgetful=(1,)), Rules(min_isr=3))
    assert told(after) == (2, (2, 3), (), ())


def test_all_forgetful_at_once_wait_for_the_ends_of_their_logs() -> None:
    after = reconsidered(state((1, 2)), here(1, 2, forgetful=(1, 2)), CLEAN)
    assert told(after) == (NO_BROKER, (1, 2), (), (1, 2))
    assert is_waiting_for_ends(after, here(1, 2))


def test_unclean_election_takes_one_that_forgot_some_before_one_that_was_never_in_sync() -> None:
    before = state((3, 1, 2), leader=NO_BROKER, isr=(2,), lost=(1,))
    assert told(reconsidered(before, here(1, 3), UNCLEAN)) == (1, (1,), (), ())


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({1: ReplicaEnd(5, 10), 2: ReplicaEnd(4, 99)}, 1),
        ({1: ReplicaEnd(5, 10), 2: ReplicaEnd(5, 11)}, 2),
        ({1: ReplicaEnd(5, 10), 2: ReplicaEnd(5, 10)}, 2),
    ],
)
def test_greatest_end_is_the_last_epoch_then_the_offset_then_the_order_of_assignment(
    ends: dict[int, ReplicaEnd], leader: int
) -> None:
    before = state((2, 1), leader=NO_BROKER, lost=(1, 2))
    assert told(greatest(before, ends)) == (leader, (leader,), (), ())
