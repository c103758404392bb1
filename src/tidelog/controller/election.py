"""What becomes of one partition: who leads, who is in sync, who has standing, when a reassignment is complete.

There is one question, `reconsidered`: given who is there, what should the state be? It is asked whenever somebody comes, goes, leaves or is
given other settings, and its answer to a state that is right already is that very state. So nothing is lost with a forgotten event, and a
controller that takes over in the middle of something ends it by asking again.

Standing. A replica *has standing* if it knows all that was committed: the members of the ISR, and the `eligible`, who left the ISR when it
became smaller than min.insync.replicas, below which nothing is committed (KIP-966). A broker that comes back having forgotten something (it
is not intact) loses its standing. If nobody would be left, it is kept as the last of the ISR and remembered as `lost`, for as long as
nobody leads: should all who had standing come back like that, the one whose log goes farthest leads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelog.controller.channels import ReplicaEnd
from tidelog.controller.image import NO_BROKER, PartitionState
from tidelog.controller.placement import Assignment
from tidelog.model import BrokerId, TopicId, invariant

Brokers: TypeAlias = frozenset[BrokerId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Who is there, as far as one partition is concerned."""

    live: Brokers
    leaving: Brokers = frozenset()  # in controlled shutdown
    restarted: Brokers = frozenset()  # live again: what they led before has ended
    forgetful: Brokers = frozenset()  # restarted, and not intact

    # What follows, kept because thousands of partitions ask.
    able: Brokers = field(init=False)  # who may lead
    present: Brokers = field(init=False)  # who may lead and was there all the time
    knowing: Brokers = field(
        init=False
    )  # who may stay in an ISR: was there, or is back with all it knew before it was missed

    def __post_init__(self) -> None:
        object.__setattr__(self, "able", self.live - self.leaving)
        object.__setattr__(self, "present", self.able - self.restarted)
        object.__setattr__(self, "knowing", self.able - self.forgetful)

    def without(self, offline: Brokers) -> Presence:
        """The same where some of them have no disk for the partition."""
        return dataclasses.replace(self, live=self.live - offline) if offline else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of a topic that elections heed."""

    min_isr: int
    is_unclean_allowed: bool = False


def new_partition(topic_id: TopicId, assignment: Assignment, live: Brokers) -> PartitionState:
    """A partition nobody has written to: led by its first live replica, all live ones in sync."""
    isr = tuple(broker for broker in assignment if broker in live)
    return PartitionState(
        topic_id=topic_id,
        assignment=assignment,
        leader=isr[0] if isr else NO_BROKER,
        leader_epoch=0,
        isr=isr or assignment,
        partition_epoch=0,
    )


def reconsidered(state: PartitionState, presence: Presence, rules: Rules) -> PartitionState:
    """The state as it should be; the same object where it is right."""
    after = _forgetting(state, presence)
    if _is_complete(after, presence):
        after = _completed(after)
    leads_on = _leads_on(after, presence)
    after = (_without_absent if leads_on else _elected)(after, presence, rules)
    return settled(state, after, is_new_epoch=state.leader in presence.restarted)


def distrusted(state: PartitionState, broker: BrokerId, presence: Presence, rules: Rules) -> PartitionState:
    """The state under which a replica that has met rot in its log may cut it: in a new epoch, and without its standing.

    The same where no other live replica is in sync: then nobody else has what it would cut, and it goes on as it is.
    """
    others = [one for one in state.isr if one != broker and one in presence.present and one not in state.lost]
    if not others:
        return state
    after = _forgetting(state, dataclasses.replace(presence, forgetful=frozenset({broker})))
    after = _with_isr(after, after.isr, rules) if _leads_on(after, presence) else _elected(after, presence, rules)
    return settled(state, after, is_new_epoch=True)


def settled(before: PartitionState, after: PartitionState, *, is_new_epoch: bool = False) -> PartitionState:
    """`after` as the next state, under the next leader epoch; `before` itself if nothing differs and no new epoch is wanted anyway.

    Every change by the controller is an epoch of its own, since it is by a greater epoch that a broker sees that it must heed one.
    """
    if after.has_leader and after.lost:
        after = dataclasses.replace(after, lost=())
    if after == before and not is_new_epoch:
        return before
    invariant(len(after.isr) > 0, "an ISR is never empty")
    return dataclasses.replace(after, leader_epoch=before.leader_epoch + 1, partition_epoch=before.partition_epoch + 1)


def with_isr_of_leader(
    state: PartitionState, isr: tuple[BrokerId, ...], rules: Rules, *, is_recovering: bool
) -> PartitionState:
    """The state with the ISR its leader proposed: the one change that is no new leader epoch."""
    after = _with_isr(state, isr, rules)
    return dataclasses.replace(after, is_recovering=is_recovering, partition_epoch=state.partition_epoch + 1)


def preferred(state: PartitionState, presence: Presence) -> PartitionState | None:
    """The state under its preferred leader, or None if that cannot lead."""
    leader = state.preferred_leader
    if leader not in presence.able or leader not in state.isr or leader in state.lost:
        return None
    return settled(state, dataclasses.replace(state, leader=leader))


def is_waiting_for_ends(state: PartitionState, presence: Presence) -> bool:
    """Whether all who had standing are back and have lost it, so that only their logs can tell who should lead."""
    members = knowing(state)
    return (
        not state.has_leader and len(state.lost) > 0 and members <= presence.able and members == frozenset(state.lost)
    )


def greatest(state: PartitionState, ends: Mapping[BrokerId, ReplicaEnd]) -> PartitionState:
    """The state under the replica whose log goes farthest; of equals, the first of the assignment.

    Whoever wrote last in the newest epoch that any of them knows has all that the others of them have of it and of earlier epochs. So it
    costs nothing to take one that had no standing; and where those that had it lost their disks, it may save what was committed.
    """
    order = [broker for broker in state.assignment if broker in ends]
    leader = max(order, key=lambda broker: (ends[broker], -order.index(broker)))
    return settled(state, dataclasses.replace(state, leader=leader, isr=(leader,), eligible=(), lost=()))


def knowing(state: PartitionState) -> Brokers:
    """Who has, or had when last seen, standing."""
    return frozenset((*state.isr, *state.eligible, *state.lost))


def effective_min_isr(state: PartitionState, min_isr: int) -> int:
    """Below how many in-sync replicas nothing is committed.

    While a reassignment changes the number of replicas its leader may count with either: the smaller is right, since a replica is eligible
    only if the leader could really not commit without it.
    """
    return min(min_isr, len(state.target), len(state.origin))


def _forgetting(state: PartitionState, presence: Presence) -> PartitionState:
    """The state with the standing of those who came back not intact taken away."""
    affected = [broker for broker in (*state.isr, *state.eligible) if broker in presence.forgetful]
    if not affected:
        return state
    lost = tuple(dict.fromkeys((*state.lost, *affected)))
    remaining = tuple(broker for broker in state.isr if broker not in lost)
    return dataclasses.replace(
        state,
        isr=remaining or state.isr,
        eligible=tuple(broker for broker in state.eligible if broker not in lost),
        lost=lost,
    )


def _is_complete(state: PartitionState, presence: Presence) -> bool:
    """Whether all replicas of the target are in sync and there: one that died just now is in the ISR only until we are done here."""
    ready = presence.present.intersection(state.isr).difference(state.lost)
    return state.is_reassigned and ready.issuperset(state.target)


def _completed(state: PartitionState) -> PartitionState:
    return narrowed(dataclasses.replace(state, assignment=state.target, adding=(), removing=()))


def narrowed(state: PartitionState) -> PartitionState:
    """The state without the standing of brokers that are no replicas any more; who led and is none leads no more."""
    return dataclasses.replace(
        state,
        leader=state.leader if state.leader in state.assignment else NO_BROKER,
        isr=_among(state.isr, state.assignment),
        eligible=_among(state.eligible, state.assignment),
        lost=_among(state.lost, state.assignment),
    )


def _leads_on(state: PartitionState, presence: Presence) -> bool:
    if state.leader not in presence.live - presence.restarted or state.leader not in state.isr:
        return False
    return state.leader not in presence.leaving or not any(broker in presence.present for broker in state.isr)


def _without_absent(state: PartitionState, presence: Presence, rules: Rules) -> PartitionState:
    isr = tuple(broker for broker in state.isr if broker in presence.knowing or broker == state.leader)
    return _with_isr(state, isr, rules)


def _elected(state: PartitionState, presence: Presence, rules: Rules) -> PartitionState:
    """The state under another leader, or under none: then whoever has standing keeps it, since only they can lead cleanly one day."""
    standing = [broker for broker in state.assignment if broker not in state.lost]
    for those in (presence.present, presence.able):
        for leader in standing:
            if leader in those and leader in state.isr:
                isr = tuple(broker for broker in state.isr if broker in presence.knowing and broker not in state.lost)
                return _with_isr(dataclasses.replace(state, leader=leader), isr, rules)
    for those in (presence.present, presence.able):
        for leader in standing:
            if leader in those and leader in state.eligible:
                return _with_isr(dataclasses.replace(state, leader=leader), (leader,), rules)
    if rules.is_unclean_allowed:
        return _uncleanly_elected(state, presence.able)
    return dataclasses.replace(state, leader=NO_BROKER)


def _uncleanly_elected(state: PartitionState, able: Brokers) -> PartitionState:
    """The state under the first live replica, whatever it has; one that has forgotten only some is better than one that was never in sync."""
    order = [*_among(state.assignment, state.lost), *state.assignment]
    leader = next((broker for broker in order if broker in able), NO_BROKER)
    if leader == NO_BROKER:
        return dataclasses.replace(state, leader=NO_BROKER)
    return dataclasses.replace(state, leader=leader, isr=(leader,), eligible=(), lost=(), is_recovering=True)


def _with_isr(state: PartitionState, isr: tuple[BrokerId, ...], rules: Rules) -> PartitionState:
    """The state with another ISR. Who leaves it, or was eligible, is eligible while nothing can be committed."""
    eligible: tuple[BrokerId, ...] = ()
    if len(isr) < effective_min_isr(state, rules.min_isr):
        known = dict.fromkeys((*state.eligible, *state.isr))
        eligible = tuple(broker for broker in known if broker not in isr and broker not in state.lost)
    if isr == state.isr and eligible == state.eligible:
        return state
    return dataclasses.replace(state, isr=isr, eligible=eligible)


def _among(brokers: tuple[BrokerId, ...], those: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    return tuple(broker for broker in brokers if broker in those)
