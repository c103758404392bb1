"""What every registry promises, told once and asked of each twin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.registry_worlds import REGISTRY_WORLDS
from tests.conformance.registry_worlds import RegistryWorld as World
from tidelog.registry import (
    ANY,
    DATA_BYTES_MAX,
    OPERATIONS_MAX,
    BadRequest,
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Registry,
    RegistryError,
    SessionExpired,
    Set,
)


@pytest.fixture(params=REGISTRY_WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with REGISTRY_WORLDS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def registry(world: World) -> Registry:
    return world.opened()


def test_node_begins_at_version_zero_and_holds_its_data(world: World, registry: Registry) -> None:
    assert world.run(registry.create("/a", b"one")) == "/a"
    node = world.run(registry.get("/a"))
    assert (node.data, node.version, node.is_ephemeral) == (b"one", 0, False)


def test_every_set_raises_the_version_by_one(world: World, registry: Registry) -> None:
    world.run(registry.create("/a", b"one"))
    assert world.run(registry.set("/a", b"two")) == 1
    assert world.run(registry.set("/a", b"two")) == 2
    assert world.run(registry.get("/a")).version == 2


def test_set_with_an_old_version_changes_nothing(world: World, registry: Registry) -> None:
    world.run(registry.create("/a", b"one"))
    world.run(registry.set("/a", b"two", version=0))
    with pytest.raises(BadVersion) as refused:
        world.run(registry.set("/a", b"three", version=0))
    assert (refused.value.path, refused.value.expected, refused.value.actual) == ("/a", 0, 1)
    assert world.run(registry.get("/a")).data == b"two"


def test_deleted_and_created_again_a_node_begins_anew(world: World, registry: Registry) -> None:
    world.run(registry.create("/a"))
    world.run(registry.set("/a", b"x"))
    before = world.run(registry.get("/a"))
    world.run(registry.delete("/a", version=1))
    world.run(registry.create("/a"))
    after = world.run(registry.get("/a"))
    assert after.version == 0
    assert after.czxid > before.czxid


def test_creation_ids_grow_over_all_paths(world: World, registry: Registry) -> None:
    paths = ["/b", "/a", "/b/c"]
    for path in paths:
        world.run(registry.create(path))
    created = [world.run(registry.get(path)).czxid for path in paths]
    assert created == sorted(set(created))


def test_set_leaves_the_creation_id_alone(world: World, registry: Registry) -> None:
    world.run(registry.create("/a"))
    before = world.run(registry.get("/a")).czxid
    world.run(registry.set("/a", b"x"))
    assert world.run(registry.get("/a")).czxid == before


def test_node_cannot_be_created_twice(world: World, registry: Registry) -> None:
    world.run(registry.create("/a", b"one"))
    with pytest.raises(NodeExists):
        world.run(registry.create("/a", b"two"))
    assert world.run(registry.get("/a")).data == b"one"


def test_parent_comes_before_its_child(world: World, registry: Registry) -> None:
    with pytest.raises(NoNode) as refused:
        world.run(registry.create("/a/b"))
    assert refused.value.path == "/a"


def test_parent_goes_after_its_child(world: World, registry: Registry) -> None:
    world.run(registry.create("/a"))
    world.run(registry.create("/a/b"))
    with pytest.raises(NotEmpty):
        world.run(registry.delete("/a"))
    world.run(registry.delete("/a/b"))
    world.run(registry.delete("/a"))
    assert not world.run(registry.exists("/a"))


def test_missing_node_is_told(world: World, registry: Registry) -> None:
    for call in (registry.get("/a"), registry.children("/a"), registry.set("/a", b""), registry.delete("/a")):
        with pytest.raises(NoNode) as refused:
            world.run(call)
        assert refused.value.path == "/a"


def test_children_are_direct_and_sorted(world: World, registry: Registry) -> None:
    for path in ["/t", "/t/b", "/t/a", "/t/a/deep", "/t2", "/t.x"]:
        world.run(registry.create(path))
    assert world.run(registry.children("/t")) == ["a", "b"]
    assert world.run(registry.children("/")) == ["t", "t.x", "t2"]
    assert world.run(registry.children("/t/b")) == []


def test_several_nodes_are_read_in_one_call(world: World, registry: Registry) -> None:
    world.run(registry.create("/a", b"1"))
    world.run(registry.create("/b", b"2"))
    nodes = world.run(registry.get_many(["/b", "/missing", "/a"]))
    assert [node and node.data for node in nodes] == [b"2", None, b"1"]
    assert world.run(registry.get_many([])) == []


def test_sequential_names_have_ten_digits_and_grow(world: World, registry: Registry) -> None:
    world.run(registry.create("/q"))
    assert world.run(registry.create("/q/n_", sequential=True)) == "/q/n_0000000000"
    assert world.run(registry.create("/q/n_", sequential=True)) == "/q/n_0000000001"
    world.run(registry.delete("/q/n_0000000001"))
    assert world.run(registry.create("/q/n_", sequential=True)) == "/q/n_0000000002"


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/.", "/a/..", "/a\x00", "/a\n"])
def test_malformed_path_is_refused(world: World, registry: Registry, path: str) -> None:
    with pytest.raises(BadRequest):
        world.run(registry.create(path))
    with pytest.raises(BadRequest):
        world.run(registry.get(path))


def test_names_may_hold_dots_and_other_scripts(world: World, registry: Registry) -> None:
    for path in ["/..a", "/a.b", "/<default>", "/\u4e2d"]:
        world.run(registry.create(path))
        assert world.run(registry.exists(path))


def test_root_is_there_and_stays(world: World, registry: Registry) -> None:
    assert world.run(registry.exists("/"))
    with pytest.raises(BadRequest):
        world.run(registry.delete("/"))
    with pytest.raises(NodeExists):
        world.run(registry.create("/"))


def test_data_is_bounded(world: World, registry: Registry) -> None:
    world.run(registry.create("/a", bytes(DATA_BYTES_MAX)))
    with pytest.raises(BadRequest):
        world.run(registry.set("/a", bytes(DATA_BYTES_MAX + 1)))
    with pytest.raises(BadRequest):
        world.run(registry.create("/b", bytes(DATA_BYTES_MAX + 1)))


def test_multi_is_bounded(world: World, registry: Registry) -> None:
    with pytest.raises(BadRequest):
        world.run(registry.multi([Check("/")] * (OPERATIONS_MAX + 1)))


def test_multi_does_all_in_order_and_tells_each_outcome(world: World, registry: Registry) -> None:
    outcomes = world.run(
        registry.multi([Create("/a", b"1"), Check("/a", 0), Create("/a/b"), Set("/a", b"2", 0), Delete("/a/b")])
    )
    assert [outcome.path for outcome in outcomes] == ["/a", "/a", "/a/b", "/a", "/a/b"]
    assert [outcome.node and outcome.node.version for outcome in outcomes] == [0, 0, 0, 1, None]
    assert world.run(registry.get("/a")).data == b"2"
    assert world.run(registry.children("/a")) == []


def test_outcomes_of_a_multi_are_the_nodes_a_reader_sees(world: World, registry: Registry) -> None:
    [outcome] = world.run(registry.multi([Create("/a", b"1", ephemeral=True)]))
    assert outcome.node == world.run(registry.get("/a"))
    assert isinstance(outcome.node, Node)
    assert outcome.node.owner == registry.session_id


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (Check("/guard", 0), BadVersion),
        (Check("/missing", ANY), NoNode),
        (Create("/guard"), NodeExists),
        (Create("/missing/child"), NoNode),
        (Set("/guard", b"", 9), BadVersion),
        (Delete("/missing"), NoNode),
        (Delete("/full"), NotEmpty),
        (Create("no path"), BadRequest),
    ],
)
def test_multi_that_fails_anywhere_leaves_nothing(
    world: World, registry: Registry, failing: Operation, error: type[RegistryError]
) -> None:
    world.run(registry.multi([Create("/guard", b"g"), Create("/full"), Create("/full/child")]))
    with pytest.raises(error):
        world.run(registry.multi([Create("/new"), Create("/new/deep"), Set("/guard", b"x"), failing]))
    assert world.run(registry.children("/")) == ["full", "guard"]
    assert world.run(registry.children("/full")) == ["child"]
    assert world.run(registry.get("/guard")).data == b"g"
    assert world.run(registry.get("/guard")).version == 0


def test_failed_sequential_create_does_not_use_up_its_number(world: World, registry: Registry) -> None:
    world.run(registry.create("/q"))
    with pytest.raises(NoNode):
        world.run(registry.multi([Create("/q/n", sequential=True), Check("/missing")]))
    assert world.run(registry.create("/q/n", sequential=True)) == "/q/n0000000000"


def test_empty_multi_does_nothing(world: World, registry: Registry) -> None:
    assert world.run(registry.multi([])) == []


def test_what_one_handle_writes_the_other_reads(world: World, registry: Registry) -> None:
    other = world.opened()
    world.run(registry.create("/a", b"1"))
    assert world.run(other.get("/a")).data == b"1"
    world.run(other.set("/a", b"2", version=0))
    with pytest.raises(BadVersion):
        world.run(registry.set("/a", b"3", version=0))


def test_of_two_contenders_for_one_node_exactly_one_wins(world: World, registry: Registry) -> None:
    other = world.opened()
    world.run(registry.create("/epoch", b"0"))

    async def contend(handle: Registry) -> bool:
        try:
            await handle.multi([Create("/controller", ephemeral=True), Set("/epoch", b"1", 0)])
        except (NodeExists, BadVersion):
            return False
        return True

    async def both() -> list[bool]:
        return list(await asyncio.gather(contend(registry), contend(other)))

    assert sorted(world.run(both())) == [False, True]
    assert world.run(registry.get("/epoch")).version == 1


def test_sessions_have_different_numbers(world: World, registry: Registry) -> None:
    other = world.handle()
    assert world.run(other.open_session()) != registry.session_id
    former = registry.session_id
    assert world.run(registry.open_session()) not in {former, other.session_id}


def test_ephemeral_node_ends_with_its_session_and_others_stay(world: World, registry: Registry) -> None:
    other = world.opened()
    world.run(registry.create("/mine", ephemeral=True))
    world.run(registry.create("/stays"))
    world.run(other.create("/theirs", ephemeral=True))
    world.run(registry.close())
    assert world.run(other.children("/")) == ["stays", "theirs"]


def test_live_session_survives_the_opening_of_another(world: World, registry: Registry) -> None:
    world.run(registry.create("/mine", ephemeral=True))
    other = world.opened()
    assert world.run(other.get("/mine")).owner == registry.session_id
    assert world.run(registry.exists("/mine"))


def test_new_session_of_a_handle_ends_the_former_one(world: World, registry: Registry) -> None:
    world.run(registry.create("/mine", ephemeral=True))
    world.run(registry.open_session())
    assert not world.run(registry.exists("/mine"))


def test_ephemeral_node_has_no_children(world: World, registry: Registry) -> None:
    world.run(registry.create("/mine", ephemeral=True))
    with pytest.raises(BadRequest):
        world.run(registry.create("/mine/child"))


def test_ephemeral_node_can_be_set_and_deleted_by_others(world: World, registry: Registry) -> None:
    other = world.opened()
    world.run(registry.create("/mine", ephemeral=True))
    world.run(other.set("/mine", b"x"))
    assert world.run(registry.get("/mine")).owner == registry.session_id
    world.run(other.delete("/mine"))
    assert not world.run(registry.exists("/mine"))


def test_without_a_session_nothing_is_answered(world: World) -> None:
    handle = world.handle()
    assert handle.session_id is None
    with pytest.raises(SessionExpired):
        world.run(handle.get("/"))
    with pytest.raises(SessionExpired):
        world.run(handle.multi([Create("/a")]))


def test_closed_handle_answers_nothing_and_closes_twice(world: World, registry: Registry) -> None:
    world.run(registry.close())
    world.run(registry.close())
    for call in (registry.get("/"), registry.get_many([]), registry.multi([Create("/a")]), registry.open_session()):
        with pytest.raises(SessionExpired):
            world.run(call)


def test_concurrent_increments_lose_nothing(world: World, registry: Registry) -> None:
    world.run(registry.create("/counter", b"0"))

    async def increment() -> None:
        while True:
            node = await registry.get("/counter")
            try:
                await registry.set("/counter", b"%d" % (int(node.data) + 1), version=node.version)
            except BadVersion:
                continue
            return

    async def several() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(increment())

    world.run(several())
    assert world.run(registry.get("/counter")).data == b"5"
