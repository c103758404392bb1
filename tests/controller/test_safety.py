"""Random lives of one partition, with logs as lists: whoever is elected cleanly knows all that was committed.

The model plays leader and followers as they behave: a follower takes over its leader's log, the high watermark moves only with enough
in-sync replicas that have fetched in this epoch, a power cut shortens a log anywhere. The controller is the real one.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import pytest

from tests.controller.clusters import T0, broker, controller, state, topic
from tidelog.controller import (
    AlterPartition,
    BeginShutdown,
    Command,
    ElectGreatest,
    IsrChange,
    PartitionState,
    Reassign,
    Reconsider,
    ReplicaEnd,
    SeeBrokers,
)
from tidelog.controller.election import effective_min_isr, knowing
from tidelog.model import ApiError
from tidelog.simulation.randomness import SimulatedRandomness

Log: TypeAlias = list[tuple[int, int]]  # (leader epoch, number)

BROKERS = (1, 2, 3, 4)
STEPS = 150


class Life:
    """One partition on four brokers."""

    def __init__(self, seed: str, *, min_isr: int) -> None:
        self.randomness = SimulatedRandomness(seed)
        self.min_isr = min_isr
        before = state((1, 2, 3), epoch=0)
        self.controller = controller(topic("t", before), brokers=4, min_insync_replicas=str(min_isr))
        self.logs: dict[int, Log] = {one: [] for one in BROKERS}
        self.fetched_in: dict[int, int] = dict.fromkeys(BROKERS, -1)
        self.epochs = {one: one * 10 for one in BROKERS}
        self.dead: dict[int, bool] = {}  # -> whether it forgot something
        self.committed: Log = []
        self.number = 0
        self.elections = Counter[str]()

    @property
    def state(self) -> PartitionState:
        return self.controller.image.topics["t"].partitions[0]

    def choose(self, items: tuple[int, ...]) -> int:
        return items[self.randomness.below(len(items))]

    def decide(self, command: Command) -> None:
        before = self.state
        decision = self.controller.decide(command)
        list(decision.writes)
        self.controller.image = decision.image
        self.check(before, self.state, command)
        if decision.reconsider:
            self.decide(Reconsider(partitions=decision.reconsider))

    def check(self, before: PartitionState, after: PartitionState, command: Command) -> None:
        assert after.isr, "an ISR is never empty"
        assert set(after.isr) | set(after.eligible) | set(after.lost) <= set(after.assignment)
        assert not set(after.isr) & set(after.eligible)
        assert not (after.has_leader and after.lost)
        assert after.leader in (-1, *after.isr)
        if after is before:
            return
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch == before.leader_epoch + (not isinstance(command, AlterPartition))
        if after.leader != before.leader and after.has_leader:
            assert not after.is_recovering
            assert after.leader in self.controller.image.brokers
            self.elections["eligible" if after.leader in before.eligible else type(command).__name__] += 1
            if isinstance(command, ElectGreatest):
                self.committed = self.committed[: len(common(self.committed, self.logs[after.leader]))]
                return
            assert after.leader in {*before.isr, *before.eligible} - set(before.lost)
        if after.has_leader:
            for one in (after.leader, *after.isr, *after.eligible):
                if not self.dead.get(one):  # what the dead have forgotten counts when they are back
                    assert self.logs[one][: len(self.committed)] == self.committed, f"{one} does not know all"

    # What happens.

    def append(self) -> None:
        if self.leads():
            self.number += 1
            self.logs[self.state.leader].append((self.state.leader_epoch, self.number))

    def leads(self) -> bool:
        return self.state.has_leader and self.state.leader not in self.dead

    def fetch(self) -> None:
        one = self.choose(BROKERS)
        if self.leads() and one not in self.dead and one in self.state.assignment and one != self.state.leader:
            self.logs[one] = list(self.logs[self.state.leader])
            self.fetched_in[one] = self.state.leader_epoch

    def commit(self) -> None:
        if not self.leads() or len(self.state.isr) < effective_min_isr(self.state, self.min_isr):
            return
        followers = [one for one in self.state.isr if one != self.state.leader]
        if all(self.fetched_in[one] == self.state.leader_epoch for one in followers):
            end = min(len(self.logs[one]) for one in self.state.isr)
            if end > len(self.committed):
                self.committed = self.logs[self.state.leader][:end]

    def expand(self) -> None:
        one = self.choose(BROKERS)
        known = self.logs[one][: len(self.committed)] == self.committed
        if one in self.state.assignment and self.fetched_in[one] == self.state.leader_epoch and known:
            self.propose((*(other for other in self.state.isr if other != one), one))

    def shrink(self) -> None:
        one = self.choose(self.state.isr)
        if one != self.state.leader:
            self.propose(tuple(other for other in self.state.isr if other != one))

    def propose(self, isr: tuple[int, ...]) -> None:
        if not self.leads():
            return
        change = IsrChange(
            topic="t",
            index=0,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            isr=tuple((one, self.epochs[one]) for one in isr),
        )
        leader = self.state.leader
        try:
            self.decide(AlterPartition(broker_id=leader, broker_epoch=self.epochs[leader], changes=[change]))
        except ApiError:
            return

    def die(self) -> None:
        one = self.choose(BROKERS)
        if one in self.dead:
            return
        self.dead[one] = self.randomness.below(3) == 0
        if self.dead[one]:
            del self.logs[one][self.randomness.below(len(self.logs[one]) + 1) :]
        if self.randomness.below(3) > 0:  # else it is back before anybody looks
            self.look()

    def come_back(self) -> None:
        """One of the dead, or all of them in one look."""
        if not self.dead:
            return
        dead = tuple(sorted(self.dead))
        those = frozenset({self.choose(dead)} if self.randomness.below(3) else dead)
        forgetful = frozenset(one for one in those if self.dead[one])
        for one in sorted(those):
            self.epochs[one] += 100
            self.fetched_in[one] = -1
            del self.dead[one]
        self.look(those, forgetful)

    def look(self, restarted: frozenset[int] = frozenset(), forgetful: frozenset[int] = frozenset()) -> None:
        live = {one: broker(one, epoch=self.epochs[one]) for one in BROKERS if one not in self.dead}
        self.decide(SeeBrokers(brokers=live))
        self.decide(Reconsider(partitions=[T0], restarted=restarted, forgetful=forgetful))
        self.elect_by_ends()

    def elect_by_ends(self) -> None:
        if self.controller.leading.waiting_for_ends([T0]):
            asked = {one: self.logs[one] for one in sorted(knowing(self.state))}
            ends = {one: ReplicaEnd(log[-1][0] if log else -1, len(log)) for one, log in asked.items()}
            self.decide(ElectGreatest(ends={T0: ends}, broker_epochs=self.epochs))

    def leave(self) -> None:
        one = self.choose(BROKERS)
        if one not in self.dead:
            self.decide(BeginShutdown(broker_id=one, broker_epoch=self.epochs[one]))
            self.dead[one] = False
            self.look()

    def move(self) -> None:
        target = (self.choose(BROKERS), self.choose(BROKERS), self.choose(BROKERS))
        wanted = tuple(dict.fromkeys(target)) if self.randomness.below(4) else None
        self.decide(Reassign(wanted={T0: wanted}))


def common(one: Log, other: Log) -> Log:
    return [left for left, right in zip(one, other, strict=False) if left == right]


def lived(seed: str, *, min_isr: int) -> Life:
    life = Life(seed, min_isr=min_isr)
    often = [life.append, life.fetch, life.fetch, life.fetch, life.commit, life.expand, life.expand, life.come_back]
    seldom = [life.shrink, life.die, life.die, life.come_back, life.come_back, life.leave, life.move]
    for _ in range(STEPS):
        events = often if life.randomness.below(3) else seldom
        events[life.randomness.below(len(events))]()
        life.commit()
    return life


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("seeds", range(8))
def test_whoever_is_elected_cleanly_knows_all_that_was_committed(*, seeds: int, min_isr: int) -> None:
    for number in range(4):
        life = lived(f"{seeds} {number}", min_isr=min_isr)
        assert life.elections.total() > 0


def test_lives_are_eventful() -> None:
    lives = [lived(f"eventful {number}", min_isr=2) for number in range(20)]
    elections = sum((life.elections for life in lives), Counter[str]())
    assert elections["Reconsider"] > 40
    assert elections["eligible"] > 10
    assert elections["ElectGreatest"] > 3
    assert sum(len(life.committed) for life in lives) > 50


@pytest.mark.proof
@pytest.mark.parametrize("min_isr", [1, 2, 3])
def test_whoever_is_elected_cleanly_knows_all_that_was_committed_in_many_lives(min_isr: int) -> None:
    for number in range(1_500):
        lived(f"many {number}", min_isr=min_isr)
