"""`tidelog log dump` tells what is in a file, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.cli.main import main
from tidelog.records.builder import RecordBatchBuilder


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    content = b""
    for base_offset, value in ((0, b"one"), (1, b"\xff\n")):
        builder = RecordBatchBuilder()
        builder.append(timestamp_ms=1700, key=b"k", value=value, headers=(("h", b"1"),))
        content += bytes(builder.build(base_offset=base_offset, leader_epoch=0))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(content)
    return path


def test_a_line_per_batch_in_kafkas_words(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(segment)]) == 0
    title, first, second = capsys.readouterr().out.splitlines()
    assert title == f"Dumping {segment}"
    assert first.startswith("baseOffset: 0 lastOffset: 0 count: 1 ")
    assert "isvalid: true" in second


def test_records_on_request_also_those_that_are_no_text(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", "--records", str(segment)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert lines[0].endswith("headerKeys: [h] key: k payload: one")
    assert lines[1].endswith(r"payload: b'\xff\n'")


def test_json_is_one_object_per_row(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", "--records", "--format", "json", str(segment)]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["records"][0]["payload"] == "one"
    assert second["records"][0]["payload_base64"] == "/wo="
    assert first["problem"] is None


def test_damage_is_shown_where_it_is_and_makes_the_command_fail(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    assert main(["log", "dump", str(segment)]) == 1
    assert "PROBLEM: the checksum does not hold" in capsys.readouterr().out


def test_an_empty_file_is_sound_and_a_missing_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "00000000000000000000.log"
    empty.touch()
    assert main(["log", "dump", str(empty)]) == 0
    assert main(["log", "dump", str(tmp_path / "gone.log")]) == 1
    assert "gone.log: No such file" in capsys.readouterr().err
