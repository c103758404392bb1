"""The tree in memory and the tree in a file do the same, whatever is asked of them."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.registry import ANY, Check, Create, Delete, Operation, Outcome, RegistryError, Set
from tidelog.registry.memory import MemoryTree
from tidelog.registry.sqlite_file import SqliteFile
from tidelog.registry.sqlite_watches import SqliteWatch

paths = st.sampled_from(["/", "/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep", "bad"])
versions = st.sampled_from([ANY, ANY, 0, 1, 2])
data = st.binary(max_size=3)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.booleans()),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
steps = st.one_of(st.lists(operations, min_size=1, max_size=4), st.just("new session"))


def outcome_of(error: RegistryError) -> tuple[str, str, str]:
    return type(error).__name__, error.path, error.reason


def in_memory(tree: MemoryTree, write: list[Operation], session_id: int) -> list[Outcome] | tuple[str, str, str]:
    try:
        return tree.multi(write, session_id=session_id)
    except RegistryError as error:
        return outcome_of(error)


def in_file(file: SqliteFile, write: list[Operation]) -> list[Outcome] | tuple[str, str, str]:
    try:
        return file.multi(write)
    except RegistryError as error:
        return outcome_of(error)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=12))
def test_memory_and_file_agree_on_every_outcome(story: list[list[Operation] | str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = SqliteFile(str(Path(directory) / "r.sqlite"), lock_timeout_ms=100, size_bytes_max=1 << 24)
        tree = MemoryTree()
        session_id = tree.open_session()
        assert file.open_session() == session_id
        for step in story:
            if isinstance(step, str):
                tree.expire_session(session_id)
                session_id = tree.open_session()
                assert file.open_session() == session_id
            else:
                assert in_file(file, step) == in_memory(tree, step, session_id)
            assert file.children("/") == tree.children("/", session_id=session_id)
        file.close()


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.lists(operations, min_size=1, max_size=4), max_size=3), max_size=6))
def test_file_tells_its_watchers_all_that_the_rules_of_the_tree_touch(story: list[list[list[Operation]]]) -> None:
    watched = ["/", "/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep", "/a0000000001"]
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "r.sqlite")
        writer, watcher = (SqliteFile(path, lock_timeout_ms=100, size_bytes_max=1 << 24) for _ in range(2))
        touched: list[str] = []
        tree = MemoryTree(touched.extend)
        session_id = tree.open_session()
        heard: dict[SqliteFile, list[str]] = {writer: [], watcher: []}
        for file, told in heard.items():
            file.open_session()
            for name in watched:
                file.watch(name, SqliteWatch(partial(told.append, name)))
        for steps_between_polls in story:
            for step in steps_between_polls:
                assert (in_memory(tree, step, session_id) == []) == (in_file(writer, step) == [])
            watcher.poll(0.0)
            for file, told in heard.items():
                while file.told:
                    file.told.popleft().tell()
                assert set(touched) & set(watched) <= set(told)
                told.clear()
            touched.clear()
        watcher.close()
        writer.close()
