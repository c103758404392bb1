"""`-o` understands what kcat's users type."""

from __future__ import annotations

import pytest

from tidelog.cli.positions import At, AtTime, BeforeEnd, Edge, Position, Range, parse_position, parse_range


@pytest.mark.parametrize(
    ("word", "position"),
    [
        ("beginning", Edge.BEGINNING),
        ("earliest", Edge.BEGINNING),
        ("end", Edge.END),
        ("latest", Edge.END),
        ("0", At(0)),
        ("17", At(17)),
        ("-10", BeforeEnd(10)),
        ("s@1700000000000", AtTime(1700000000000)),
    ],
)
def test_positions(word: str, position: Position) -> None:
    assert parse_position(word) == position


@pytest.mark.parametrize("word", ["", "-", "s@", "middle", "1.5", "--1", "s@-1", "²", str(1 << 63)])
def test_what_is_no_position_is_refused_with_the_list_of_what_is(word: str) -> None:
    with pytest.raises(ValueError, match="accepted is beginning"):
        parse_position(word)


def test_a_range_has_a_start_and_maybe_an_end() -> None:
    assert parse_range([]) == Range(start=Edge.BEGINNING, end=None)
    assert parse_range(["s@1", "e@2"]) == Range(start=AtTime(1), end=AtTime(2))


def test_two_starts_are_refused() -> None:
    with pytest.raises(ValueError, match="once where to start"):
        parse_range(["1", "2"])


def test_stored_offsets_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="consumer groups"):
        parse_range(["stored"])
