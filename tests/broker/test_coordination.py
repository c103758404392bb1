"""What a broker coordinates follows what it leads: an errand outlives a new epoch of the same reign, and never the reign."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.broker.replication_rig import T0, Rig, rig, virtual_ms
from tests.coordinator.counting import Count, Counted, CountingMachine
from tidelog.broker.coordination import Coordination, CoordinationSurroundings
from tidelog.coordinator import Client
from tidelog.coordinator.shard import ShardLimits
from tidelog.model import BrokerId, ErrorCode, LeaderEpoch
from tidelog.wire.definition import Response

CLIENT = Client("test", "/test", 0)


class Watched(Coordination):
    """Coordinates counts in topic `t` of broker 1, and notes what it hears."""

    def __init__(self, one: Rig) -> None:
        broker = one.brokers[1]
        surroundings = CoordinationSurroundings(broker.runtime.clock, broker.metadata, broker.replicas)
        super().__init__(T0.topic, surroundings, CountingMachine, ShardLimits())
        self._world = one.world
        self.errands: list[tuple[int, object]] = []
        self.reigns_over: list[int] = []

    def _on_errand(self, index: int, errand: object) -> None:
        self.errands.append((index, errand))

    def _on_reign_over(self, index: int) -> None:
        self.reigns_over.append(index)

    def count(self, **said: object) -> ErrorCode:
        """Ask for a count, and wait."""

        async def story() -> Counted:
            answer = self._ask("key", Count(**said), CLIENT)  # type: ignore[arg-type]
            counted = answer if isinstance(answer, Response) else await answer
            assert isinstance(counted, Counted)
            return counted

        return self._world.run(story()).error_code


@contextmanager
def watched() -> Iterator[tuple[Rig, Watched]]:
    with rig(2) as one:
        coordination = Watched(one)

        async def serve(_: object) -> None:
            async with coordination.running():
                await virtual_ms(10**9)

        one.world.node("broker-1").spawn(serve(None))
        one.world.run_for_ms(10)
        yield one, coordination


def tell(one: Rig, *leaders: tuple[BrokerId, LeaderEpoch]) -> None:
    """Who leads, and under which epoch; one right after the other."""

    async def story() -> None:
        for leader, leader_epoch in leaders:
            one.tell(leader, leader_epoch)
        await virtual_ms(100)

    one.world.run(story())


def test_who_leads_is_asked_and_who_does_not_says_so() -> None:
    with watched() as (one, coordination):
        assert coordination.count(by=1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        tell(one, (1, 0))
        assert coordination.count(by=1) is ErrorCode.NONE
        assert (coordination.locate("key"), coordination.coordinator_of("key")) == (0, 1)
        tell(one, (2, 1))
        assert coordination.count(by=1) is ErrorCode.NOT_COORDINATOR
        assert coordination.coordinator_of("key") == 2


def test_an_errand_is_given_out_when_its_records_are_committed() -> None:
    with watched() as (one, coordination):
        tell(one, (1, 0))
        assert coordination.count(by=1, errand="tell them") is ErrorCode.NONE
        assert coordination.errands == [(0, "tell them")]


def test_a_reign_goes_on_under_a_new_epoch_and_is_over_when_another_leads() -> None:
    with watched() as (one, coordination):
        tell(one, (1, 0))
        tell(one, (1, 1))
        assert coordination.reigns_over == []
        tell(one, (2, 2))
        assert coordination.reigns_over == [0]


def test_a_reign_is_over_though_the_next_begins_before_anybody_has_looked() -> None:
    with watched() as (one, coordination):
        tell(one, (1, 0))
        tell(one, (2, 1), (1, 2))
        assert coordination.reigns_over == [0]
        assert coordination.count(by=1) is ErrorCode.NONE
