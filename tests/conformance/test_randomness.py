"""What every randomness promises."""

from __future__ import annotations

import base64

import pytest

from tests.conformance.worlds import Twin


def test_below_stays_below(one_loop_twin: Twin) -> None:
    drawn = {one_loop_twin.runtime.randomness.below(3) for _ in range(200)}
    assert drawn == {0, 1, 2}


def test_below_nothing_is_refused(one_loop_twin: Twin) -> None:
    with pytest.raises(ValueError, match="empty range"):
        one_loop_twin.runtime.randomness.below(0)


def test_fraction_is_in_the_half_open_unit_interval(one_loop_twin: Twin) -> None:
    assert all(0 <= one_loop_twin.runtime.randomness.fraction() < 1 for _ in range(200))


def test_bytes_are_as_many_as_asked_for(one_loop_twin: Twin) -> None:
    assert [len(one_loop_twin.runtime.randomness.bytes(count)) for count in (0, 1, 33)] == [0, 1, 33]


def test_uuids_are_distinct_version_four_and_never_begin_with_a_dash(one_loop_twin: Twin) -> None:
    drawn = [one_loop_twin.runtime.randomness.uuid() for _ in range(500)]
    assert len(set(drawn)) == 500
    assert {each.version for each in drawn} == {4}
    assert not any(base64.urlsafe_b64encode(each.bytes).startswith(b"-") for each in drawn)
