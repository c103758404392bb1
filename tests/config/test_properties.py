"""The syntax of server.properties is Java's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import ConfigError, parse_properties


def test_a_stock_file_is_read() -> None:
    text = "# comment\n! another\n\nbroker.id=1\r\nlog.dirs = /a,/b\nlisteners:PLAINTEXT://:9092\n  num.partitions 3\n"
    assert parse_properties(text) == {
        "broker.id": "1",
        "log.dirs": "/a,/b",
        "listeners": "PLAINTEXT://:9092",
        "num.partitions": "3",
    }


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\\\n   2", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=x\\\n#y", {"a": "x#y"}),
        ("a=x\\", {"a": "x"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b c", {"a b": "c"}),
        ("a=\\u0041\\t\\n\\q", {"a": "A\t\nq"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = b ", {"a": "b "}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
        ("a=\\\\u12", {"a": "\\u12"}),
    ],
)
def test_java_syntax(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties("a=\\u12x4")


def _escaped(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for character in text for unit in [ord(character)])


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    )
)
def test_escaped_text_survives(properties: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in properties.items())
    assert parse_properties(text) == properties


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse_properties(text)
    except ConfigError as refused:
        assert "four hexadecimal digits" in str(refused)  # noqa: PT017
