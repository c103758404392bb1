"""Definition files that cannot be used: read as a run reads them, but without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tidelog.pipeline.declared.definitions import DefinitionFailed, load
from tidelog.pipeline.declared.recorder import Recorder
from tidelog.pipeline.declared.run_failed import RunFailed
from tidelog.pipeline.declared.spec import definition_files, read_spec

pytestmark = pytest.mark.slow  # to import pyspark takes a second


def loaded(tmp_path: Path, text: str, *, name: str = "t/flows.py") -> Recorder:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(text)
    file = tmp_path / "spark-pipeline.yml"
    file.write_text("{name: a, storage: s, libraries: [{glob: {include: t/**}}]}")
    spec, recorder, spark = read_spec(file), Recorder(), object()
    session: Any = spark
    load(spec, definition_files(spec), recorder, session, nullcontext)
    return recorder


def test_a_file_finds_a_session_and_its_directory(tmp_path: Path) -> None:
    text = (
        "from pathlib import Path\nfrom pyspark import pipelines as dp\n"
        "dp.create_sink(Path('name').read_text(), 'x', {'spark': str(spark is not None)})\n"
    )
    (tmp_path / "name").write_text("out")
    assert loaded(tmp_path, text).sinks["out"].options == {"spark": "True"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nx = nothing\n", "t/flows.py, line 2: NameError: name 'nothing' is not defined"),
        ("x = (\n", r"t/flows.py, line 1: SyntaxError: '\(' was never closed"),
        (
            "from pyspark import pipelines as dp\n\n@dp.materialized_view\ndef by_key(): ...\n",
            "t/flows.py, line 3: by_key is a materialized view",
        ),
        (
            "import pyspark.pipelines as dp\ndp.create_sink(7, 'x')\n",
            r"t/flows.py, line 2: Argument `name` should be str",
        ),
        ("raise SystemError('no')\n", "t/flows.py, line 1: SystemError: no"),
    ],
    ids=["name", "syntax", "materialized view", "argument", "anything"],
)
def test_what_is_wrong_has_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DefinitionFailed, match=f"^{said}"):
        loaded(tmp_path, text)


def test_sql_that_is_not_understood_has_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(
        DefinitionFailed, match=r"^t/flows.sql, line 2: an always-on run does not understand `SELECT 1`"
    ):
        loaded(tmp_path, "\nSELECT 1;", name="t/flows.sql")


def test_what_is_to_begin_anew_must_be_there() -> None:
    from tidelog.pipeline.declared.triggered import check_refreshed

    check_refreshed(["a"], {"a", "b"}, has_sql=False)
    check_refreshed(["of_sql"], {"a", "b"}, has_sql=True)
    with pytest.raises(RunFailed, match="writes to no table or sink ouch; there are a, b"):
        check_refreshed(["a", "ouch"], {"a", "b"}, has_sql=False)
