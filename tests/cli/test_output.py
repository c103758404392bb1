"""Tables line up and grep well; JSON is one valid document."""

from __future__ import annotations

import io
import json

import pytest

from tidelog.cli.output import OutputFormat, is_coloured, paint, render_table, shown, size, write_rows


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() -> None:
    table = render_table(["topic", "leader_epoch"], [["a-long-name", "1"], ["b", ""]])
    assert table == "TOPIC        LEADER-EPOCH\na-long-name  1\nb\n"


def test_a_table_without_rows_still_has_its_heading() -> None:
    assert render_table(["topic"], []) == "TOPIC\n"


def test_cells_for_people() -> None:
    assert [shown(cell) for cell in (None, "", "x", 3, True, False, [1, 2], [], {"a": 1})] == [
        "-", "-", "x", "3", "yes", "no", "1,2", "-", "a=1",
    ]  # fmt: skip


def test_json_has_all_fields_also_those_the_table_does_not_show() -> None:
    out = io.StringIO()
    write_rows(out, OutputFormat.JSON, ["topic"], [{"topic": "ü", "isr": [1]}])
    assert json.loads(out.getvalue()) == [{"topic": "ü", "isr": [1]}]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (2_500_000, "2.5 MB"),
        (3e15, "3000 TB"),
    ],
)
def test_sizes_have_three_digits_or_so(count: float, shown: str) -> None:
    assert size(count) == shown


def test_numbers_stand_to_the_right() -> None:
    table = render_table(["topic", "size", "leader"], [["a", "1.5 kB", "1"], ["b", "12 kB", "-"]])
    assert table == "TOPIC    SIZE  LEADER\na      1.5 kB       1\nb       12 kB       -\n"


def test_headings_are_bold_only_where_colour_is_wanted() -> None:
    assert render_table(["topic"], [["x"]], in_colour=True) == "\x1b[1mTOPIC\x1b[0m\nx\n"
    assert paint("x", "red", wanted=False) == "x"


def test_a_pipe_gets_no_colour() -> None:
    assert not is_coloured(io.StringIO())
