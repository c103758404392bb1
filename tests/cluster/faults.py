"""A seeded driver of faults against real processes, one fault at a time, each awaited until it has done its harm and is healed.

Never more than one replica of a partition is down, so the load must go on through each of them; the one exception says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.ground import BROKERS, PARTITION_COUNT, Ground
from tests.cluster.load import Load
from tests.cluster.waiting import eventually
from tidelog.simulation.randomness import SimulatedRandomness

_GOES_ON: Final = 20  # acknowledgements of a partition that say it goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What one fault cost: the longest time without an acknowledgement, of any partition and of the worst."""

    name: str
    lasted_s: float
    longest_gaps_s: list[float]


@dataclass(slots=True)
class Faults:
    """Does what it is told to, or what the seed says, and keeps a record of it."""

    ground: Ground
    load: Load
    chance: SimulatedRandomness
    phases: list[Phase] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """All faults that this ground allows."""
        brokers = ["kill_leader", "kill_follower", "kill_controller", "pause_leader", "pause_controller"]
        everywhere = [*brokers, "cut_link", "cut_answers", "roll", "kill_all"]
        members = ["cut_from_registry", "kill_member", "kill_leading_member", "pause_leading_member"]
        return everywhere if self.ground.ensemble is None else everywhere + members

    def run_for(self, seconds: float) -> None:
        """All faults in an order of the seed, again and again, until the time is over and each was had once."""
        deadline = time.monotonic() + seconds
        is_first_round = True
        while is_first_round or time.monotonic() < deadline:
            for name in self._shuffled(self.names):
                if is_first_round or time.monotonic() < deadline:
                    self.run(name)
            is_first_round = False

    def run(self, name: str) -> None:
        """One fault by its name, from its beginning until the cluster is whole again and the load goes on."""
        fault: Callable[[], None] = getattr(self, name)
        self.load.begin_phase()
        started_s = time.monotonic()
        fault()
        self.wait_whole()
        self.wait_load()
        gaps_s = self.load.longest_gaps_s()
        self.phases.append(Phase(name=name, lasted_s=time.monotonic() - started_s, longest_gaps_s=gaps_s))

    def kill_leader(self) -> None:
        """SIGKILL for the leader of some partition."""
        self._kill(self._leader())

    def kill_follower(self) -> None:
        """SIGKILL for a broker that is not controller; it follows in most partitions."""
        self._kill(self._any_of(self.ground.others(self._controller())))

    def kill_controller(self) -> None:
        """SIGKILL for the controller."""
        self._kill(self._controller())

    def pause_leader(self) -> None:
        """SIGSTOP for the leader of some partition until its session is over; then the zombie goes on."""
        self._pause(self._leader())

    def pause_controller(self) -> None:
        """SIGSTOP for the controller until somebody else is."""
        self._pause(self._controller())

    def roll(self) -> None:
        """Stop each broker in turn, cleanly, and start it again, as for new software."""
        for broker_id in BROKERS:
            assert self.ground.cluster.shut_down(broker_id) == 0, self.ground.cluster.output(broker_id)
            self.wait_load()
            self.ground.cluster.restart(broker_id)
            self.wait_whole()

    def cut_link(self) -> None:
        """Nobody reaches the leader of some partition, which reaches everybody: it is left alone with its partitions."""
        broker_id = self._leader()
        self.ground.links[broker_id].cut()
        try:
            self._wait_alone(broker_id)
        finally:
            self.ground.links[broker_id].mend()

    def cut_answers(self) -> None:
        """A leader hears everybody, and nobody hears it."""
        broker_id = self._leader()
        self.ground.links[broker_id].cut_answers()
        try:
            self._wait_alone(broker_id)
        finally:
            self.ground.links[broker_id].mend()

    def cut_from_registry(self) -> None:
        """A leader loses its session while clients and brokers still reach it."""
        broker_id = self._leader()
        for link in self.ground.registry_links[broker_id]:
            link.cut()
        try:
            self._wait_replaced(broker_id)
        finally:
            for link in self.ground.registry_links[broker_id]:
                link.mend()

    def kill_member(self) -> None:
        """SIGKILL for any member of the ensemble."""
        self._kill_member(self.chance.below(3))

    def kill_leading_member(self) -> None:
        """SIGKILL for the leader of the ensemble."""
        assert self.ground.ensemble is not None
        self._kill_member(self.ground.ensemble.leader())

    def pause_leading_member(self) -> None:
        """SIGSTOP for the leader of the ensemble; the others elect another, and brokers find it."""
        ensemble = self.ground.ensemble
        assert ensemble is not None
        index = ensemble.leader()
        ensemble.stop(index)
        try:
            self.wait_load()
            eventually(
                lambda: any(mode == "leader" for n, mode in enumerate(ensemble.modes()) if n != index),
                "another member leads the ensemble",
            )
            self.wait_load()
        finally:
            ensemble.cont(index)
        ensemble.wait_serving()

    def kill_all(self) -> None:
        """SIGKILL for all brokers at once. Here the load cannot go on, until they are back."""
        self.ground.cluster.kill_all()
        self.ground.cluster.restart(*BROKERS)
        self.wait_whole()
        self.load.begin_phase()  # what went before is no gap: nobody was there

    def wait_whole(self) -> None:
        """Wait until every broker is registered and every partition has one leader and all replicas in sync."""
        eventually(self._is_whole, "all brokers there, one leader and three replicas in sync for each partition")

    def wait_load(self, partitions: Sequence[int] = range(PARTITION_COUNT)) -> None:
        """Wait until the load has gone on in these partitions."""
        goals = {partition: self.load.counts[partition] + _GOES_ON for partition in partitions}
        eventually(
            lambda: all(self.load.counts[partition] >= goal for partition, goal in goals.items()),
            f"the load goes on in all of the partitions {list(partitions)}",
        )

    def _kill(self, broker_id: int) -> None:
        self.ground.cluster.kill(broker_id)
        self._wait_replaced(broker_id)
        self.ground.cluster.restart(broker_id)

    def _pause(self, broker_id: int) -> None:
        self.ground.cluster.stop(broker_id)
        try:
            self._wait_replaced(broker_id)
        finally:
            self.ground.cluster.cont(broker_id)

    def _kill_member(self, index: int) -> None:
        ensemble = self.ground.ensemble
        assert ensemble is not None
        ensemble.kill(index)
        self.wait_load()
        ensemble.restart(index)

    def _wait_replaced(self, broker_id: int) -> None:
        """Wait until a broker's session is over, somebody else leads all that it led, and the load goes on there."""
        others = self.ground.others(broker_id)
        witness = self.ground.witness
        eventually(lambda: broker_id not in (witness.registered(others) or {broker_id}), f"{broker_id} counts as gone")
        eventually(lambda: len(witness.leaders(others)) == PARTITION_COUNT, f"all that {broker_id} led is led again")
        eventually(lambda: witness.controller(others) in others, "there is a controller")
        self.wait_load()

    def _wait_alone(self, broker_id: int) -> None:
        """Wait until a leader nobody reaches is alone in its ISRs, while all partitions that it does not lead go on."""
        witness, others = self.ground.witness, self.ground.others(broker_id)

        def is_alone() -> bool:
            led = [row for row in witness.leaders().values() if row.leader_id == broker_id]
            return all(row.isr == (broker_id,) for row in led)

        def goes_on() -> bool:
            appointed = witness.appointed(others)
            standing = [index for index, goal in goals.items() if self.load.counts[index] < goal]
            return bool(appointed) and all(appointed.get(index) == broker_id for index in standing)

        eventually(is_alone, f"{broker_id} is alone in what it leads")
        goals = {index: count + _GOES_ON for index, count in enumerate(self.load.counts)}
        eventually(goes_on, f"the load goes on wherever {broker_id} does not lead")

    def _is_whole(self) -> bool:
        told = self.ground.witness.replicas()
        rows = [row for found in told.values() for row in found]
        leading = [row for row in rows if row.is_leader]
        return (
            len(rows) == PARTITION_COUNT * len(BROKERS)
            and len(leading) == PARTITION_COUNT == len({row.topic_partition for row in leading})
            and all(len(row.isr) == len(BROKERS) for row in leading)
        )

    def _leader(self) -> int:
        found = eventually(self.ground.witness.leaders, "somebody leads")
        keys = sorted(found)
        return found[keys[self.chance.below(len(keys))]].leader_id

    def _controller(self) -> int:
        return eventually(self.ground.witness.controller, "there is a controller")

    def _any_of(self, brokers: Sequence[int]) -> int:
        return brokers[self.chance.below(len(brokers))]

    def _shuffled(self, names: list[str]) -> list[str]:
        drawn = list(names)
        for index in range(len(drawn) - 1, 0, -1):
            other = self.chance.below(index + 1)
            drawn[index], drawn[other] = drawn[other], drawn[index]
        return drawn
