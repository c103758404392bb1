"""SQL definition files, as an always-on run reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipeline.declared.sql_statements import Statement, StatementRefused, statements

FILE = Path("transformations/a.sql")


def test_the_three_kinds_of_statement_are_understood_with_their_lines() -> None:
    text = """\
-- what comes in; and more
CREATE TEMPORARY VIEW orders AS SELECT 'a;b' AS x, `odd;name` FROM STREAM raw;

/* a comment; of two
   lines */
CREATE OR REFRESH STREAMING TABLE shop.archive USING parquet AS
  SELECT * FROM STREAM orders -- the end; really
;
create flow fill as insert into `archive` by name select * from stream more
"""
    assert statements(text, FILE) == [
        Statement(
            kind="temporary view", name="orders", line=2, query="SELECT 'a;b' AS x, `odd;name` FROM STREAM raw"
        ),
        Statement(
            kind="streaming table", name="shop.archive", line=6, format="parquet",
            query="SELECT * FROM STREAM orders -- the end; really",
        ),
        Statement(kind="flow", name="fill", line=9, target="archive", query="select * from stream more"),
    ]  # fmt: skip


def test_a_streaming_table_may_be_left_to_flows_to_fill() -> None:
    assert statements("CREATE STREAMING TABLE t;", FILE) == [Statement(kind="streaming table", name="t", line=1)]


def test_a_materialized_view_is_known_by_its_name() -> None:
    (found,) = statements("CREATE MATERIALIZED VIEW by_key (k INT) COMMENT 'x' AS SELECT 1 k", FILE)
    assert (found.kind, found.name) == ("materialized view", "by_key")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "CREATE STREAMING TABLE t (a INT) AS SELECT 1",
        "SET x = 1",
        "CREATE FLOW f AS AUTO CDC INTO t FROM s",
    ],
)
def test_anything_else_is_refused_by_file_and_line(text: str) -> None:
    with pytest.raises(
        StatementRefused, match=r"transformations/a.sql, line 3: an always-on run does not understand `"
    ):
        statements(f"\n\n{text};", FILE)


def test_a_file_of_comments_declares_nothing() -> None:
    assert statements("-- nothing\n/* at all; */ ;;\n", FILE) == []
