"""Spark's reports, and the sentence that is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.spark_events import FlowEvent, RunFailure, understood
from tidelog.pipeline.declared.troubles import definition_failure, plain_reason

QUERY_REPORT = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when \
Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/x/pyspark/sql/streaming/python_streaming_source_runner.py", line 200, in main
    offset = reader.latestOffset(start, limit)
  File "/x/tidelog/pipeline/source/survey.py", line 9, in look
    raise TopicMissing(name)
tidelog.pipeline.source.errors.TopicMissing: topic 'orders' does not exist
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: to_topic [id = 1, runId = 2]
tidelog.pipeline.never: this is the plan
"""


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (QUERY_REPORT, "topic 'orders' does not exist"),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: tidelgo. Make sure the provider name is correct SQLSTATE: 42K02",
            "there is no format tidelgo: tidelog, parquet, json, csv, orc, console and memory are there, others must be installed",
        ),
        (
            "Caused by: ERROR XSDB6: Another instance of Derby may have already booted the database /x/catalog.",
            "the catalog /x/catalog is locked by another process that uses this storage; end that one, then run this again",
        ),
        (
            "org.apache.spark.SparkException: Python worker failed to connect back.",
            "Spark gave its own Python process 10 s to start, and this machine was too busy for that; nothing is lost: run it again",
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found. Verify the spelling. SQLSTATE: 42P01;\n'Project",
            "The table or view `nowhere` cannot be found. Verify the spelling. SQLSTATE: 42P01;",
        ),
        ("Traceback (most recent call last):\n  File x\nValueError: quantity is no number\n", "ValueError: quantity is no number"),
        ("", "Spark did not say why"),
    ],
)  # fmt: skip
def test_one_sentence_is_left(report: str, sentence: str) -> None:
    assert plain_reason(report) == sentence


def test_a_sentence_has_a_bound() -> None:
    assert len(plain_reason("x" * 10_000)) < 700


def failed(code: str, file: Path) -> BaseException:
    file.parent.mkdir(exist_ok=True)
    file.write_text(code)
    try:
        exec(compile(code, str(file), "exec"), {})  # noqa: S102  # what a definition file is
    except (ValueError, NameError, ImportError, SyntaxError) as error:
        return error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import json\n\njson.loads('{')\n", "t/a.py, line 3: JSONDecodeError: Expecting property name"),
        ("x = 1\ny = x +\n", "t/a.py, line 2: SyntaxError: invalid syntax"),
        ("def f():\n    return nothing\nf()\n", "t/a.py, line 2: NameError: name 'nothing' is not defined"),
        ("import no_such_module\n", "t/a.py, line 1: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_definition_file_that_fails_is_named_with_its_own_line(tmp_path: Path, code: str, said: str) -> None:
    assert definition_failure(failed(code, tmp_path / "t" / "a.py"), tmp_path).startswith(said)


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ("Flow spark_catalog.default.a is QUEUED.", FlowEvent(name="spark_catalog.default.a", state=state.WAITING)),
        ("Flow a is RUNNING.", FlowEvent(name="a", state=state.RUNNING)),
        ("Flow a has COMPLETED.", FlowEvent(name="a", state=state.DONE)),
        ("Flow 'a' has STOPPED.", FlowEvent(name="a", state=state.STOPPED)),
        ("Flow 'a' is EXCLUDED.", FlowEvent(name="a", state=state.SKIPPED)),
        (
            "Flow 'a' SKIPPED due to upstream failure(s).",
            FlowEvent(name="a", state=state.SKIPPED, reason="one that it reads from failed"),
        ),
        (
            f"Flow 'a' has FAILED.\n         |Error: {QUERY_REPORT}",
            FlowEvent(name="a", state=state.FAILED, reason="topic 'orders' does not exist"),
        ),
        ("Run is FAILED since flow 'a' has failed.", RunFailure(reason="flow 'a' has failed.")),
        ("Run is RUNNING.", None),
        ("Run is COMPLETED.", None),
        ("something else", None),
    ],
)
def test_events_of_sparks_runner_are_understood(message: str, meant: object) -> None:
    assert understood(message) == meant
