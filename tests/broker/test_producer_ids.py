"""Producer ids: each is given once, nobody waits for the registry while there are any, and whoever must wait is told why it failed."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.story import passed
from tidelog.broker.producer_ids import WAIT_S, ProducerIds
from tidelog.model import NO_PRODUCER_ID, ApiError, ErrorCode, ProducerId
from tidelog.simulation.world import World

BLOCK = 20


class Registry:
    """Grants one block after the other, each after a second."""

    def __init__(self) -> None:
        self.granted = 0
        self.is_away = False
        self.known = NO_PRODUCER_ID
        self.asked_above: list[ProducerId] = []

    async def highest_known(self) -> ProducerId:
        return self.known

    async def allocate(self, above: ProducerId) -> range:
        self.asked_above.append(above)
        await passed(1)
        if self.is_away:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "away")
        self.granted += 1
        return range((self.granted - 1) * BLOCK, self.granted * BLOCK)


def test_ids_are_given_once_and_the_next_block_is_fetched_before_the_last_is_used_up() -> None:
    registry = Registry()

    async def story() -> None:
        ids = ProducerIds(registry.allocate, registry.highest_known)
        async with ids.running():
            await ids.ensure()
            assert [ids.take() for _ in range(BLOCK - 2)] == list(range(BLOCK - 2))
            await passed(2)
            assert registry.granted == 1
            assert ids.take() == BLOCK - 2
            await passed(2)
            assert registry.granted == 2, "two of twenty were left"
            assert [ids.take() for _ in range(3)] == [BLOCK - 1, BLOCK, BLOCK + 1]

    with World() as world:
        world.run(story())


def test_without_one_at_hand_none_is_taken_and_more_are_on_their_way() -> None:
    registry = Registry()

    async def story() -> None:
        ids = ProducerIds(registry.allocate, registry.highest_known)
        async with ids.running():
            assert (ids.take(), ids.take(), ids.is_stocked) == (None, None, False)
            await passed(2)
            assert (ids.take(), registry.granted) == (0, 1)

    with World() as world:
        world.run(story())


def test_many_who_wait_share_one_block() -> None:
    registry = Registry()

    async def story() -> list[int]:
        ids = ProducerIds(registry.allocate, registry.highest_known)
        return list(await asyncio.gather(*(ids.next() for _ in range(BLOCK))))

    with World() as world:
        assert sorted(world.run(story())) == list(range(BLOCK))
    assert registry.granted == 1


def test_a_registry_that_is_away_is_told_to_who_waits_and_asked_again_by_the_next() -> None:
    registry = Registry()

    async def story() -> None:
        ids = ProducerIds(registry.allocate, registry.highest_known)
        async with ids.running():
            registry.is_away = True
            assert ids.take() is None
            with pytest.raises(ApiError) as told:
                await ids.ensure()
            assert told.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            registry.is_away = False
            assert await ids.next() == 0

    with World() as world:
        world.run(story())


def test_whoever_leaves_while_ids_are_fetched_waits_for_nothing() -> None:
    registry = Registry()

    async def story() -> None:
        ids = ProducerIds(registry.allocate, registry.highest_known)
        async with ids.running():
            assert ids.take() is None

    with World() as world:
        world.run(story())
        assert world.loop.time_ms() < 1_000
    assert registry.granted == 0


def test_a_registry_that_says_nothing_is_not_waited_for_without_end() -> None:
    async def never(_: ProducerId) -> range:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def story() -> None:
        ids = ProducerIds(never, Registry().highest_known)
        async with ids.running():
            asked_at = asyncio.get_running_loop().time()
            for _ in range(2):  # whoever asks first, and whoever waits behind the one that is fetched ahead
                with pytest.raises(ApiError) as told:
                    await ids.next()
                assert told.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert asyncio.get_running_loop().time() - asked_at == pytest.approx(2 * WAIT_S, abs=1)

    with World() as world:
        world.run(story())


def test_ids_that_the_logs_know_already_are_not_given_again() -> None:
    registry = Registry()
    registry.known = 4711

    async def story() -> None:
        ids = ProducerIds(registry.allocate, registry.highest_known)
        async with ids.running():
            await ids.ensure()
            registry.known = 9999  # asked once: what the logs learn from now on they learn from us
            for _ in range(BLOCK + 1):
                await ids.next()
            assert set(registry.asked_above) == {4711}

    with World() as world:
        world.run(story())
