"""The faults of the simulated registry: nodes that are killed, lose power, are paused or cut off, and what their sessions come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tidelog.registry import NodeExists, RegistryUnavailable, SessionExpired
from tidelog.simulation import World
from tidelog.simulation.registry import SimulatedRegistry, SimulatedRegistryStore
from tidelog.simulation.registry_session import RegistryTiming

T = TypeVar("T")

TIMEOUT_MS = 9_000


class Cast:
    """A watcher that stays, and an actor whose node suffers."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.store = SimulatedRegistryStore(self.world.randomness.stream("registry"))
        self.watcher = self.store.handle("watcher")
        self.actor = self.store.handle("actor")
        self.node = self.world.node("actor")
        self.heard_ms: list[float] = []
        self.ended_ms: list[float] = []

    @property
    def now_ms(self) -> float:
        return self.world.loop.time() * 1000

    def play(self, work: Coroutine[Any, Any, T]) -> T:
        """As the watcher."""
        return self.world.run(work)

    def act(self, work: Coroutine[Any, Any, T]) -> T:
        """As the actor, in the process of its node."""
        task = self.node.spawn(work)

        async def watched() -> T:
            return await task

        return self.world.run(watched())

    def begin(self) -> None:
        async def watch() -> None:
            await self.watcher.open_session()
            await self.watcher.create("/ids")
            await self.watcher.watch("/ids", lambda: self.heard_ms.append(self.now_ms))

        async def register() -> None:
            await self.actor.open_session()
            await self.actor.create("/ids/1", ephemeral=True)

        async def await_end() -> None:
            await self.actor.ended()
            self.ended_ms.append(self.now_ms)

        self.play(watch())
        self.act(register())
        self.node.spawn(await_end())
        self.world.run_for_ms(100)
        self.heard_ms.clear()

    def is_registered(self) -> bool:
        return self.play(self.watcher.exists("/ids/1"))


@pytest.fixture(params=range(5))
def cast(request: pytest.FixtureRequest) -> Iterator[Cast]:
    made = Cast(request.param)
    with made.world:
        made.begin()
        yield made


def test_session_of_a_process_that_runs_lives_for_ever(cast: Cast) -> None:
    cast.world.run_for_ms(20 * TIMEOUT_MS)
    assert cast.is_registered()
    cast.act(cast.actor.get("/ids"))


def test_killed_node_is_found_out_soon(cast: Cast) -> None:
    began_ms = cast.now_ms
    cast.node.kill()
    cast.actor.crash()
    cast.world.run_for_ms(400)
    [heard_ms] = cast.heard_ms
    assert 100 <= heard_ms - began_ms <= 350
    assert not cast.is_registered()


def test_node_without_power_misses_its_beats(cast: Cast) -> None:
    cast.node.power_cut()
    cast.actor.crash(lost_power=True)
    cast.world.run_for_ms(TIMEOUT_MS / 2)
    assert cast.is_registered()
    cast.world.run_for_ms(TIMEOUT_MS)
    assert not cast.is_registered()


def test_paused_node_is_expired_and_learns_it_when_it_goes_on(cast: Cast) -> None:
    cast.node.pause()
    cast.world.run_for_ms(TIMEOUT_MS / 2)
    assert cast.is_registered()
    cast.world.run_for_ms(TIMEOUT_MS)
    assert not cast.is_registered()
    assert cast.ended_ms == []
    cast.node.resume()
    with pytest.raises(SessionExpired):
        cast.act(cast.actor.create("/late"))
    cast.world.run_for_ms(100)
    assert len(cast.ended_ms) == 1
    assert not cast.play(cast.watcher.exists("/late"))


def test_write_of_a_node_paused_on_its_way_is_refused(cast: Cast) -> None:
    async def write() -> str:
        with pytest.raises(SessionExpired) as refused:
            await cast.actor.create("/late")
        return refused.value.path

    task = cast.node.spawn(write())
    cast.node.pause()
    cast.world.run_for_ms(2 * TIMEOUT_MS)
    cast.node.resume()

    async def watched() -> str:
        return await task

    assert cast.play(watched()) == "/late"
    assert not cast.play(cast.watcher.exists("/late"))


def test_short_pause_costs_nothing(cast: Cast) -> None:
    for _ in range(5):
        cast.node.pause()
        cast.world.run_for_ms(TIMEOUT_MS / 2)
        cast.node.resume()
        cast.world.run_for_ms(TIMEOUT_MS / 2)
    assert cast.is_registered()
    assert cast.ended_ms == []


def test_calls_of_a_node_that_is_cut_off_give_up_after_a_bounded_wait(cast: Cast) -> None:
    cast.store.cut("actor")
    began_ms = cast.now_ms
    with pytest.raises(RegistryUnavailable) as refused:
        cast.act(cast.actor.get("/ids"))
    assert refused.value.may_pass
    assert cast.now_ms - began_ms <= RegistryTiming().unreachable_ms_max + 10
    assert cast.is_registered()


def test_node_cut_off_for_a_while_keeps_its_session_and_hears_what_it_missed(cast: Cast) -> None:
    heard: list[float] = []
    cast.act(cast.actor.watch("/a", lambda: heard.append(cast.now_ms)))
    cast.store.cut("actor")
    cast.play(cast.watcher.create("/a"))
    cast.world.run_for_ms(TIMEOUT_MS / 2)
    assert heard == []
    cast.store.heal("actor")
    cast.world.run_for_ms(TIMEOUT_MS)
    assert len(heard) == 1
    assert cast.is_registered()
    assert cast.ended_ms == []


def test_node_cut_off_for_too_long_is_expired_and_learns_it_when_it_is_back(cast: Cast) -> None:
    cast.store.cut("actor")
    cast.world.run_for_ms(2 * TIMEOUT_MS)
    assert not cast.is_registered()
    assert cast.ended_ms == []
    assert cast.actor.session_id is not None
    cast.store.heal("actor")
    cast.world.run_for_ms(100)
    assert len(cast.ended_ms) == 1
    cast.act(cast.actor.open_session())
    cast.act(cast.actor.create("/ids/1", ephemeral=True))


def test_handle_closed_while_cut_off_leaves_a_session_that_lapses(cast: Cast) -> None:
    cast.store.cut("actor")
    cast.act(cast.actor.close())
    assert cast.is_registered()
    cast.store.heal("actor")
    cast.world.run_for_ms(2 * TIMEOUT_MS)
    assert not cast.is_registered()


def test_explicit_expiry_is_told_to_both_sides(cast: Cast) -> None:
    assert cast.actor.session_id is not None
    cast.store.expire(cast.actor.session_id)
    cast.world.run_for_ms(100)
    assert len(cast.heard_ms) == len(cast.ended_ms) == 1
    assert cast.actor.session_id is None


def test_all_sessions_of_a_node_can_be_expired_and_no_other(cast: Cast) -> None:
    second = cast.store.handle("actor")
    cast.act(second.open_session())
    cast.store.expire_node("actor")
    cast.world.run_for_ms(100)
    assert (cast.actor.session_id, second.session_id) == (None, None)
    assert cast.watcher.session_id is not None


def test_onlooker_sees_the_tree_without_a_session(cast: Cast) -> None:
    tree, before = cast.store.tree, cast.store.tree.zxid
    cast.play(cast.watcher.set("/ids", b"seen"))
    node = tree.peek("/ids")
    assert node is not None
    assert (node.data, tree.peek("/missing")) == (b"seen", None)
    assert (tree.peek_children("/ids"), tree.peek_children("/missing")) == (["1"], [])
    assert tree.zxid == before + 1


def test_nobody_expires_while_the_registry_is_away(cast: Cast) -> None:
    cast.store.is_available = False
    cast.world.run_for_ms(5 * TIMEOUT_MS)
    cast.store.heal()
    cast.world.run_for_ms(5 * TIMEOUT_MS)
    assert cast.is_registered()
    assert cast.ended_ms == []


def test_change_made_before_the_registry_went_away_is_told_when_it_is_back(cast: Cast) -> None:
    cast.play(cast.watcher.create("/ids/2"))
    cast.store.is_available = False
    cast.world.run_for_ms(1_000)
    assert cast.heard_ms == []
    cast.store.heal()
    cast.world.run_for_ms(1_000)
    assert len(cast.heard_ms) == 1


def test_paused_node_hears_its_watches_when_it_goes_on(cast: Cast) -> None:
    heard: list[float] = []
    cast.act(cast.actor.watch("/a", lambda: heard.append(cast.now_ms)))
    cast.node.pause()
    cast.play(cast.watcher.create("/a"))
    cast.world.run_for_ms(1_000)
    assert heard == []
    cast.node.resume()
    cast.world.run_for_ms(0)
    assert len(heard) == 1


def test_node_restarted_after_a_kill_does_not_meet_its_own_ghost(cast: Cast) -> None:
    cast.node.kill()
    cast.actor.crash()
    cast.node.restart()
    again = cast.store.handle("actor")

    async def register() -> None:
        await again.open_session()
        await again.create("/ids/1", ephemeral=True)

    cast.act(register())


def test_node_restarted_after_a_power_cut_meets_its_own_ghost_until_the_timeout(cast: Cast) -> None:
    cast.node.power_cut()
    cast.actor.crash(lost_power=True)
    cast.node.restart()
    again = cast.store.handle("actor")
    cast.act(again.open_session())
    with pytest.raises(NodeExists):
        cast.act(again.create("/ids/1", ephemeral=True))
    cast.world.run_for_ms(TIMEOUT_MS)
    cast.act(again.create("/ids/1", ephemeral=True))


def watched_for(seed: int, story: Callable[[Cast], None]) -> tuple[list[float], list[float], str]:
    cast = Cast(seed)
    with cast.world:
        cast.begin()
        story(cast)
        return cast.heard_ms, cast.ended_ms, cast.world.digest()


def test_the_same_seed_tells_the_same_story_and_another_one_another() -> None:
    def story(cast: Cast) -> None:
        cast.store.cut("actor")
        cast.world.run_for_ms(2 * TIMEOUT_MS)
        cast.store.heal()
        cast.world.run_for_ms(1_000)

    assert watched_for(3, story) == watched_for(3, story)
    assert watched_for(3, story)[0] != watched_for(4, story)[0]


def test_answer_to_the_opening_of_a_session_may_be_lost(cast: Cast) -> None:
    async def open_and_lose() -> None:
        opening = asyncio.ensure_future(fresh.open_session())
        while fresh.session_id is None:
            await asyncio.wait([opening], timeout=0.0001)
        cast.store.cut("fresh")
        with pytest.raises(RegistryUnavailable):
            await opening

    fresh: SimulatedRegistry = cast.store.handle("fresh")
    cast.play(open_and_lose())
    cast.store.heal()
    first = fresh.session_id
    assert cast.play(fresh.open_session()) != first
