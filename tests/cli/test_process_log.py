"""A log line is a sentence and fields, as text or as JSON, and always one line."""

from __future__ import annotations

import json
import logging

from tidelog.cli.process_log import JsonFormatter, TextFormatter
from tidelog.model import TopicPartition
from tidelog.runtime.logs import fields


def record(**values: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "tidelog.x", "levelname": "INFO", "msg": "leader elected", "created": 1.5})
    made.__dict__.update(fields(**values))
    return made


def test_text_gives_time_level_logger_sentence_and_fields() -> None:
    line = TextFormatter().format(record(partition=TopicPartition("t", 0), leader_epoch=3))
    assert line == "1970-01-01T00:00:01.500Z INFO tidelog.x leader elected partition=t-0 leader_epoch=3"


def test_values_with_blanks_quotes_or_newlines_stay_on_the_line() -> None:
    line = TextFormatter().format(record(reason='no "space"\nleft', empty=""))
    assert line.endswith(r'reason="no \"space\"\nleft" empty=""')


def test_a_field_may_have_a_name_that_logging_keeps_for_itself() -> None:
    assert TextFormatter().format(record(name="num.io.threads")).endswith("name=num.io.threads")


def test_json_is_one_object_with_the_fields_beside_the_event() -> None:
    said = json.loads(JsonFormatter().format(record(partition=TopicPartition("t", 0), count=2)))
    assert said["event"] == "leader elected"
    assert said["level"] == "info"
    assert said["count"] == 2


def test_a_traceback_is_kept() -> None:
    broken = record()
    try:
        raise ValueError("boom")
    except ValueError as error:
        broken.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: boom" in TextFormatter().format(broken)
    assert "ValueError: boom" in json.loads(JsonFormatter().format(broken))["traceback"]
