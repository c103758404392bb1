"""The pipeline that `init` makes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tidelog.pipeline.declared.definitions import mentions_tables
from tidelog.pipeline.declared.skeleton import NotMade, make_pipeline
from tidelog.pipeline.declared.spec import definition_files, find_spec, read_spec


def test_what_is_made_is_a_pipeline(tmp_path: Path) -> None:
    make_pipeline(tmp_path / "orders")
    spec = read_spec(find_spec(tmp_path / "orders"))
    (file,) = definition_files(spec)
    assert (spec.name, spec.storage) == ("orders", tmp_path / "orders" / "storage")
    assert "orders-good" in ast.unparse(ast.parse(file.read_text()))
    assert "{" not in (tmp_path / "orders" / "README.md").read_text().replace('{"product"', "").replace("2}", "")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    with pytest.raises(NotMade, match="is there already; nothing was changed"):
        make_pipeline(tmp_path / "orders")
    assert list((tmp_path / "orders").iterdir()) == []


@pytest.mark.parametrize("name", ["", "7up", "a b", "x" * 101, "a.b"])
def test_a_name_that_would_be_none_of_a_topic_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotMade, match=r"is no name for a pipeline|is there already"):
        make_pipeline(tmp_path / name)


def test_a_pipeline_without_tables_needs_no_catalog(tmp_path: Path) -> None:
    files = [tmp_path / "a.py"]
    files[0].write_text("dp.create_sink('stable', 'tidelog', {})\n@dp.append_flow(target='x')\ndef f(): ...\n")
    assert not mentions_tables(files)
    files[0].write_text("spark.readStream.table('view')\n(spark.readStream\n  .table('view'))\nspark.table('view')\n")
    assert not mentions_tables(files)
    make_pipeline(tmp_path / "orders")
    assert not mentions_tables(definition_files(read_spec(find_spec(tmp_path / "orders"))))
    for text in ("@dp.table\n", "dp.materialized_view", "CREATE STREAMING TABLE x", "dp.create_streaming_table('x')"):
        files[0].write_text(text)
        assert mentions_tables(files)
