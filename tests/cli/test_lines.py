"""Bytes that come in pieces, as lines."""

from __future__ import annotations

from tidelog.cli.lines import LINE_BYTES_MAX, Lines


def test_lines_are_whole_however_their_bytes_come() -> None:
    lines = Lines()
    assert lines.feed(b"one\ntw") == ["one"]
    assert lines.feed(b"o\r\n\nthr") == ["two", ""]
    assert lines.feed(b"") == []
    assert lines.rest() == ["thr"]
    assert lines.rest() == []


def test_what_is_not_text_is_escaped() -> None:
    assert Lines().feed(b"a\xffb\n") == ["a\\xffb"]


def test_a_line_without_end_is_handed_out_in_parts() -> None:
    lines = Lines()
    assert lines.feed(b"x" * LINE_BYTES_MAX) == []
    [part] = lines.feed(b"x")
    assert len(part) == LINE_BYTES_MAX + 1
    assert lines.rest() == []
