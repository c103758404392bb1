"""What a process keeps open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidelog.pipeline.sink.kept import Kept

ROOT = Path(__file__).parents[3]


class Thing:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_thing_is_made_once_until_it_is_forgotten() -> None:
    kept: Kept[str, Thing] = Kept(2)
    first = kept.of("a", Thing)
    assert kept.of("a", Thing) is first
    kept.forget("a")
    kept.forget("a")
    assert first.is_closed
    assert kept.of("a", Thing) is not first


def test_the_oldest_goes_where_there_are_too_many() -> None:
    kept: Kept[str, Thing] = Kept(2)
    first, second, third = (kept.of(key, Thing) for key in "abc")
    assert [first.is_closed, second.is_closed, third.is_closed] == [True, False, False]
    kept.close_all()
    assert second.is_closed
    assert third.is_closed


_FORKING = """
import os
from tests.pipeline.sink.test_kept import Thing
from tidelog.pipeline.sink.kept import Kept
kept = Kept(2)
mine = kept.of("a", Thing)
child = os.fork()
if not child:
    own = kept.of("a", Thing)
    kept.close_all()
    os._exit(0 if own is not mine and own.is_closed and not mine.is_closed else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert kept.of("a", Thing) is mine
"""


def test_a_fork_begins_with_nothing_and_closes_nothing_of_its_parent() -> None:
    # In a process of its own, since this one may have threads, which a fork would not.
    subprocess.run([sys.executable, "-c", _FORKING], check=True, cwd=ROOT, timeout=120)
