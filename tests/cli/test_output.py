"""Tables line up and grep well; JSON is one valid document."""

from __future__ import annotations

import io
import json

from tidelog.cli.output import OutputFormat, render_table, shown, write_rows


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
