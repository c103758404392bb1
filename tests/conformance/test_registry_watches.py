"""What every registry promises about watches and the end of sessions, told once and asked of each twin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.registry_worlds import REGISTRY_WORLDS, RegistryWorld
from tidelog.registry import BadRequest, Create, Delete, NoNode, Operation, Registry, SessionExpired, Set, Watch


@pytest.fixture(params=REGISTRY_WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryWorld]:
    with REGISTRY_WORLDS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def registry(world: RegistryWorld) -> Registry:
    return world.opened()


@pytest.fixture
def other(world: RegistryWorld) -> Registry:
    return world.opened()


class Bell:
    """Counts how often it rang, and waits for it to ring. What is rung twice may be told once, so it is only ever waited for."""

    def __init__(self, world: RegistryWorld) -> None:
        self.count = 0
        self._world = world
        self._rung = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._rung.set()

    def wait(self) -> None:
        """Until it rings (again)."""
        self._world.run(self._rung.wait())
        self._rung.clear()


def hear(world: RegistryWorld, registry: Registry, path: str) -> Bell:
    bell = Bell(world)
    world.run(registry.watch(path, bell))
    return bell


def settle(world: RegistryWorld, registry: Registry) -> None:
    """What was told before has arrived, if words set off later have: several, since they may overtake each other."""
    bell = hear(world, registry, "/settled")
    for _ in range(4):
        world.run(registry.create("/settled"))
        bell.wait()
        world.run(registry.delete("/settled"))
        bell.wait()


async def close(registry: Registry) -> None:
    await registry.close()


async def renew(registry: Registry) -> None:
    await registry.open_session()


PREPARED = [Create("/a", b"1"), Create("/a/x"), Create("/a/y"), Create("/b")]
TELLING: list[tuple[str, list[Operation]]] = [
    ("/a", [Set("/a", b"2")]),
    ("/a", [Set("/a", b"1")]),
    ("/a", [Create("/a/z")]),
    ("/a", [Delete("/a/x")]),
    ("/a", [Delete("/a/x"), Create("/a/x")]),
    ("/a", [Create("/a/n", sequential=True)]),
    ("/a/x", [Delete("/a/x")]),
    ("/a/x", [Delete("/a/x"), Create("/a/x")]),
    ("/a/x", [Set("/a/x", b"2")]),
    ("/a/x", [Create("/a/x/deep")]),
    ("/new", [Create("/new")]),
    ("/new", [Create("/new", ephemeral=True)]),
    ("/a/new", [Create("/a/new")]),
    ("/new/deep", [Create("/new"), Create("/new/deep")]),
    ("/", [Create("/new")]),
    ("/", [Delete("/b")]),
    ("/b", [Set("/a", b"2"), Set("/b", b"2"), Create("/c")]),
]


@pytest.mark.parametrize(("path", "change"), TELLING)
@pytest.mark.parametrize("is_own", [True, False])
def test_change_is_told(
    world: RegistryWorld, registry: Registry, other: Registry, path: str, change: list[Operation], *, is_own: bool
) -> None:
    world.run(registry.multi(PREPARED))
    bell = hear(world, registry, path)
    world.run((registry if is_own else other).multi(change))
    bell.wait()


def test_watch_stays_until_it_is_cancelled(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    bell = hear(world, registry, "/a")
    changes: list[Operation] = [
        Create("/a"),
        Set("/a", b"1"),
        Create("/a/x"),
        Delete("/a/x"),
        Delete("/a"),
        Create("/a"),
    ]
    for number, change in enumerate(changes):
        world.run((registry if number % 3 else other).multi([change]))
        bell.wait()


def test_who_is_told_reads_what_was_written(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    bell = hear(world, registry, "/a")
    world.run(other.create("/a", b"1"))
    bell.wait()
    assert world.run(registry.get("/a")).data == b"1"


def test_several_changes_may_be_told_as_one_but_the_last_one_is_told(
    world: RegistryWorld, registry: Registry, other: Registry
) -> None:
    world.run(registry.create("/a", b"0"))
    bell = hear(world, registry, "/a")
    for number in range(1, 20):
        world.run(other.set("/a", b"%d" % number))
    while world.run(registry.get("/a")).data != b"19":
        bell.wait()
    bell.wait()
    assert 1 <= bell.count <= 19


def test_cancelled_watch_tells_nothing_more(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    bell = Bell(world)
    watch: Watch = world.run(registry.watch("/a", bell))
    world.run(other.create("/a"))
    bell.wait()
    settle(world, registry)
    before = bell.count
    watch.cancel()
    watch.cancel()
    world.run(other.set("/a", b"x"))
    settle(world, registry)
    assert bell.count == before


def test_two_watches_of_one_node_are_told_each(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    first, second = Bell(world), hear(world, registry, "/a")
    watch = world.run(registry.watch("/a", first))
    world.run(other.create("/a"))
    first.wait()
    second.wait()
    watch.cancel()
    world.run(other.set("/a", b"x"))
    second.wait()


@pytest.mark.parametrize(
    "change",
    [[Set("/b", b"2")], [Set("/a/x", b"2")], [Create("/a/x/deep")], [Delete("/b"), Create("/c")]],
    ids=["another node", "data of a child", "a grandchild", "neighbours"],
)
def test_what_concerns_others_is_not_told(
    world: RegistryWorld, registry: Registry, other: Registry, change: list[Operation]
) -> None:
    world.run(registry.multi(PREPARED))
    bell = hear(world, registry, "/a")
    world.run(registry.multi(change[:1]))
    world.run(other.multi(change[1:]))
    settle(world, registry)
    assert bell.count == 0


def test_failed_multi_is_not_told(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    world.run(registry.create("/a"))
    bell = hear(world, registry, "/a")
    for writer in (registry, other):
        with pytest.raises(NoNode):
            world.run(writer.multi([Set("/a", b"1"), Delete("/missing")]))
    settle(world, registry)
    assert bell.count == 0


def test_malformed_path_cannot_be_watched(world: RegistryWorld, registry: Registry) -> None:
    with pytest.raises(BadRequest):
        world.run(registry.watch("a/", lambda: None))


def test_without_a_session_nothing_is_watched(world: RegistryWorld, registry: Registry) -> None:
    with pytest.raises(SessionExpired):
        world.run(world.handle().watch("/", lambda: None))
    world.run(registry.close())
    with pytest.raises(SessionExpired):
        world.run(registry.watch("/", lambda: None))


@pytest.mark.parametrize("is_closed", [True, False])
def test_end_of_a_session_is_told_as_the_end_of_its_ephemeral_nodes(
    world: RegistryWorld, registry: Registry, other: Registry, *, is_closed: bool
) -> None:
    world.run(registry.create("/ids"))
    world.run(other.create("/ids/2", ephemeral=True))
    bells = [hear(world, registry, "/ids"), hear(world, registry, "/ids/2")]
    world.run(close(other) if is_closed else renew(other))
    for bell in bells:
        bell.wait()
    assert world.run(registry.children("/ids")) == []


def test_expired_session_is_told_to_the_others(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    world.run(registry.create("/ids"))
    world.run(other.create("/ids/2", ephemeral=True))
    bell = hear(world, registry, "/ids")
    world.expire(other)
    bell.wait()
    assert world.run(registry.children("/ids")) == []


def test_watches_end_with_their_session(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    bell = hear(world, registry, "/a")
    world.run(registry.open_session())
    world.run(other.create("/a"))
    settle(world, registry)
    assert bell.count == 0


def test_owner_is_told_that_its_session_has_expired(world: RegistryWorld, registry: Registry) -> None:
    world.expire(registry)
    world.run(registry.ended())
    assert registry.session_id is None


def test_expired_owner_writes_and_reads_nothing(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    world.run(other.create("/epoch", b"1"))
    world.run(registry.create("/mine", ephemeral=True))
    world.expire(registry)
    for call in (
        registry.set("/epoch", b"2"),
        registry.multi([Create("/a"), Set("/epoch", b"2")]),
        registry.get("/epoch"),
        registry.get_many(["/epoch"]),
        registry.children("/"),
        registry.exists("/epoch"),
        registry.watch("/epoch", lambda: None),
    ):
        with pytest.raises(SessionExpired):
            world.run(call)
    assert world.run(other.get("/epoch")).data == b"1"
    assert world.run(other.children("/")) == ["epoch"]


def test_refused_call_tells_the_owner_too(world: RegistryWorld, registry: Registry) -> None:
    world.expire(registry)
    with pytest.raises(SessionExpired):
        world.run(registry.get("/"))
    assert registry.session_id is None
    world.run(registry.ended())


def test_expired_owner_begins_again_with_another_session(
    world: RegistryWorld, registry: Registry, other: Registry
) -> None:
    former = registry.session_id
    world.run(registry.create("/mine", b"1", ephemeral=True))
    world.expire(registry)
    world.run(registry.ended())
    assert world.run(registry.open_session()) != former
    world.run(registry.create("/mine", b"2", ephemeral=True))
    bell = hear(world, registry, "/a")
    world.run(other.create("/a"))
    bell.wait()
    assert world.run(other.get("/mine")).owner == registry.session_id


def test_session_in_force_does_not_end(world: RegistryWorld, registry: Registry, other: Registry) -> None:
    async def briefly() -> bool:
        waiting = asyncio.ensure_future(registry.ended())
        await other.create("/a")
        await asyncio.wait([waiting], timeout=0.2)
        is_done = waiting.done()
        waiting.cancel()
        return is_done

    assert not world.run(briefly())
    assert world.run(registry.exists("/a"))


def test_without_a_session_it_has_ended(world: RegistryWorld, registry: Registry) -> None:
    world.run(world.handle().ended())
    world.run(registry.close())
    world.run(registry.ended())
