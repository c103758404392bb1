"""Timers: each key is due once, at the last time it was given, and putting one off costs nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.timers import Timers


def due(timers: Timers, now_ms: float) -> list[object]:
    found = []
    while (key := timers.pop_due(now_ms)) is not None:
        found.append(key)
    return found


def test_keys_are_due_in_the_order_of_their_times_and_once() -> None:
    timers = Timers()
    for key, at_ms in (("late", 30.0), ("early", 10.0), ("middle", 20.0)):
        timers.set(key, at_ms)
    assert due(timers, 9.9) == []
    assert due(timers, 20) == ["early", "middle"]
    assert due(timers, 20) == []
    assert (len(timers), "late" in timers, "early" in timers) == (1, True, False)
    assert due(timers, 30) == ["late"]


def test_those_due_at_the_same_time_come_in_the_order_in_which_they_were_set() -> None:
    timers = Timers()
    for key in "cab":
        timers.set(key, 5)
    assert due(timers, 5) == ["c", "a", "b"]


def test_a_key_that_was_put_off_is_due_later_only() -> None:
    timers = Timers()
    timers.set("session", 10)
    timers.set("session", 20)
    assert due(timers, 19) == []
    assert due(timers, 20) == ["session"]


def test_a_key_that_was_brought_forward_is_due_earlier_only() -> None:
    timers = Timers()
    timers.set("session", 20)
    timers.set("session", 10)
    assert timers.next_ms == 10
    assert due(timers, 10) == ["session"]
    assert due(timers, 50) == []


def test_a_key_without_a_time_is_never_due() -> None:
    timers = Timers()
    timers.set("session", 10)
    timers.set("session", None)
    timers.set("nobody", None)
    assert due(timers, 100) == []
    timers.set("session", 200)
    assert due(timers, 200) == ["session"]


def test_putting_off_adds_nothing_to_the_queue() -> None:
    timers = Timers()
    for now_ms in range(10_000):
        timers.set("session", now_ms + 45_000)
    assert timers.entry_count == 1


def test_the_queue_stays_in_proportion_to_the_keys_whatever_is_done_to_them() -> None:
    timers = Timers()
    for turn in range(10_000):
        timers.set("one", 100_000 - turn)  # Forward every time.
        timers.set(f"gone-{turn}", 5)
        timers.set(f"gone-{turn}", None)
    assert timers.entry_count <= 2 * len(timers) + 66
    assert due(timers, 100_000) == ["one"]


def test_nothing_is_due_after_all_were_forgotten() -> None:
    timers = Timers()
    timers.set("session", 10)
    timers.clear()
    assert (timers.next_ms, due(timers, 100), len(timers)) == (None, [], 0)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 3)), max_size=80
    )
)
def test_timers_agree_with_a_table_that_is_searched(steps: list[tuple[str, int | None, int]]) -> None:
    timers, table, now_ms = Timers(), dict[str, float](), 0
    for key, at_ms, passed_ms in steps:
        timers.set(key, at_ms)
        table.pop(key, None)
        if at_ms is not None:
            table[key] = at_ms
        now_ms += passed_ms
        expected = {key for key, at in table.items() if at <= now_ms}
        next_ms = timers.next_ms
        assert not table or (next_ms is not None and next_ms <= min(table.values()))
        assert set(due(timers, now_ms)) == expected
        table = {key: at for key, at in table.items() if key not in expected}
