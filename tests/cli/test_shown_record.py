"""Records are printed as kcat prints them, and as JSON that can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.read_records import InputRules
from tidelog.cli.shown_record import RecordFormat, ShownRecord, to_json

RECORD = ShownRecord(
    topic="t", partition=3, offset=42, timestamp_ms=1700, key=b"k", value=b"vv", headers=(("a", b"1"), ("b", None))
)
NULLS = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%s", b"vv"),
        ("%v", b"vv"),
        (r"%k:%s\n", b"k:vv\n"),
        (r"%t-%p@%o %T\t%K,%S", b"t-3@42 1700\t1,2"),
        ("%h", b"a=1,b=NULL"),
        ("%R", b"\0\0\0\2"),
        ("100%%s", b"100%s"),
        (r"\x00é", b"\0" + "é".encode()),
        ("plain", b"plain"),
    ],
)
def test_format_tokens_mean_what_they_mean_in_kcat(text: str, printed: bytes) -> None:
    assert RecordFormat.parse(text)(RECORD) == printed


def test_null_key_and_value_print_as_nothing_with_length_minus_one() -> None:
    assert RecordFormat.parse("[%k|%s|%K|%S|%h]")(NULLS) == b"[||-1|-1|]"
    assert RecordFormat.parse("%R")(NULLS) == b"\xff\xff\xff\xff"


def test_null_can_be_shown_by_a_word() -> None:
    assert RecordFormat.parse("%k %s", null=b"NULL")(NULLS) == b"NULL NULL"


@pytest.mark.parametrize("text", ["%q", "%", "a%", r"\xg1"])
def test_a_format_with_an_unknown_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"token|hexadecimal"):
        RecordFormat.parse(text)


NULLABLE = st.none() | st.binary(max_size=20)


@given(key=NULLABLE, value=NULLABLE, headers=st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=3))
def test_json_output_is_read_back_unchanged(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    shown = RECORD._replace(key=key, value=value, headers=tuple(headers))
    read = InputRules(is_json=True).record(to_json(shown))
    assert (read.key, read.value, read.headers) == (key, value, tuple(headers))
    assert (read.partition, read.timestamp_ms) == (3, 1700)
