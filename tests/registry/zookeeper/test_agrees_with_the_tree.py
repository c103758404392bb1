"""ZooKeeper and the tree in memory do the same, whatever is asked of them: the simulated twin tells the truth about the real one."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.registry.zookeeper.opened import new_chroot, opened, run
from tests.zookeeper_ensemble import shared_server
from tidelog.registry import ANY, Check, Create, Delete, Node, Operation, Outcome, Registry, RegistryError, Set
from tidelog.registry.memory import MemoryTree

paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"])
versions = st.sampled_from([ANY, ANY, 0, 1, 2])
data = st.binary(max_size=3)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.booleans()),
    st.builds(Set, st.one_of(paths, st.just("/")), data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, st.one_of(paths, st.just("/")), versions),
)
steps = st.one_of(st.lists(operations, min_size=1, max_size=4), st.just("new session"))


def plain(node: Node | None, session_id: int | None) -> Node | None:
    """A node without the numbers that each registry gives out by itself."""
    if node is None:
        return None
    owner = None if node.owner is None else int(node.owner == session_id)
    return dataclasses.replace(node, czxid=0, owner=owner)


def told(write: list[Operation], outcomes: list[Outcome], session_id: int | None) -> list[object]:
    """All but the nodes that were only checked: ZooKeeper reads those after the multi."""
    return [
        (outcome.path, None if isinstance(operation, Check) else plain(outcome.node, session_id))
        for operation, outcome in zip(write, outcomes, strict=True)
    ]


def in_memory(tree: MemoryTree, write: list[Operation], session_id: int) -> list[object]:
    try:
        return told(write, tree.multi(write, session_id=session_id), session_id)
    except RegistryError as error:
        return [type(error), error.path]


async def in_zookeeper(registry: Registry, write: list[Operation]) -> list[object]:
    try:
        return told(write, await registry.multi(write), registry.session_id)
    except RegistryError as error:
        return [type(error), error.path]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=12))
def test_memory_and_zookeeper_agree_on_every_outcome(story: list[list[Operation] | str]) -> None:
    async def tell() -> None:
        tree = MemoryTree()
        session_id = tree.open_session()
        async with opened(shared_server().connect_string + new_chroot()) as registry:
            for step in story:
                if isinstance(step, str):
                    tree.expire_session(session_id)
                    session_id = tree.open_session()
                    await registry.open_session()
                    continue
                expected = in_memory(tree, step, session_id)
                assert await in_zookeeper(registry, step) == expected
                for path in ["/", "/a", "/b"]:
                    if await registry.exists(path):
                        assert await registry.children(path) == tree.children(path, session_id=session_id)
                        node = await registry.get(path)
                        assert plain(node, registry.session_id) == plain(
                            tree.get(path, session_id=session_id), session_id
                        )

    run(tell())
