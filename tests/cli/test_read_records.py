"""Input becomes records, however it is cut into chunks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.read_records import InputRecord, InputRules, Splitter, Unreadable


def split(data: bytes, delimiter: bytes, cuts: list[int]) -> list[bytes]:
    splitter = Splitter(delimiter)
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [piece for start, end in itertools.pairwise(bounds) for piece in splitter.feed(data[start:end])]
    rest = splitter.rest()
    return pieces if rest is None else [*pieces, rest]


@given(
    pieces=st.lists(st.text("ab", min_size=1, max_size=4), max_size=6),
    delimiter=st.sampled_from(["\n", "--", "ba"]),
    cuts=st.lists(st.integers(min_value=0), max_size=5),
)
def test_chunk_borders_do_not_matter(pieces: list[str], delimiter: str, cuts: list[int]) -> None:
    data = delimiter.join(pieces).encode()
    assert split(data, delimiter.encode(), cuts) == split(data, delimiter.encode(), [])


def test_the_last_line_needs_no_newline_and_a_final_newline_makes_no_record() -> None:
    assert split(b"a\nb", b"\n", []) == [b"a", b"b"]
    assert split(b"a\nb\n", b"\n", []) == [b"a", b"b"]


def test_an_empty_line_is_an_empty_record() -> None:
    assert split(b"a\n\nb\n", b"\n", []) == [b"a", b"", b"b"]


def test_input_without_delimiter_is_bounded() -> None:
    splitter = Splitter(b"\n", max_bytes=8)
    with pytest.raises(Unreadable, match="within 8 bytes"):
        list(splitter.feed(b"123456789"))


def test_key_delimiter_splits_at_its_first_occurrence() -> None:
    rules = InputRules(key_delimiter=b":")
    assert rules.record(b"k:v:w") == InputRecord(b"k", b"v:w")
    assert rules.record(b"no key") == InputRecord(None, b"no key")


def test_fixed_key_and_headers_go_to_every_record() -> None:
    rules = InputRules(key=b"k", headers=(("h", b"1"),))
    assert rules.record(b"v") == InputRecord(b"k", b"v", (("h", b"1"),))


def test_empty_is_null_only_when_asked_for() -> None:
    assert InputRules(key_delimiter=b":").record(b":") == InputRecord(b"", b"")
    assert InputRules(key_delimiter=b":", empty_is_null=True).record(b":") == InputRecord(None, None)


def test_json_values_that_are_no_text_are_sent_as_their_json() -> None:
    assert InputRules(is_json=True).record(b'{"value": {"a": 1}}').value == b'{"a": 1}'


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"3",
        b'{"headers": 3}',
        b'{"headers": [3]}',
        b'{"partition": -1}',
        b'{"partition": true}',
        b'{"timestamp_ms": "now"}',
        b'{"value_base64": "*"}',
        b"\xff",
    ],
)
def test_bad_json_is_refused_with_a_reason(line: bytes) -> None:
    with pytest.raises(Unreadable):
        InputRules(is_json=True).record(line)
