"""`tidelog registry show` on a registry file, whoever else has it open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.cli.main import main
from tidelog.cli.output import Cell
from tidelog.cli.registry_tree import pretty
from tidelog.registry.sqlite import SqliteRegistry


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A directory with a registry that somebody has a session with."""
    registry = SqliteRegistry(str(tmp_path / "registry.sqlite"))
    with asyncio.Runner() as runner:
        runner.run(_fill(registry))
        yield tmp_path
        runner.run(registry.close())


async def _fill(registry: SqliteRegistry) -> None:
    await registry.open_session()
    await registry.create("/brokers")
    await registry.create("/brokers/ids")
    await registry.create("/brokers/ids/1", b'{"host":"h","port":9092}', ephemeral=True)
    await registry.create("/words", b"not JSON\xff")
    await registry.set("/words", b"not JSON\xff")


def show(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["registry", "show", *words]) == 0
    return capsys.readouterr().out


def test_a_node_with_the_names_below_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, "/brokers", "--data", str(data)).splitlines() == [
        "/brokers  (version 0, created by 1)",
        "  /brokers/ids",
    ]


def test_everything_below_a_node_with_its_data_and_owner(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(capsys, "--recursive", "--data", str(data)).splitlines()
    assert lines == [
        "/  (version 0, created by 0)",
        "/brokers  (version 0, created by 1)",
        "/brokers/ids  (version 0, created by 2)",
        "/brokers/ids/1  (version 0, created by 3, ephemeral, session 1)",
        '  {"host": "h", "port": 9092}',
        "/words  (version 1, created by 4)",
        "  not JSON\\xff",
    ]


def test_long_data_is_shown_with_its_members_below_each_other() -> None:
    content: dict[str, Cell] = {
        "partitions": {str(number): [1, 2, 3] for number in range(9)},
        "name": 'a\n"b"',
        "none": [],
    }
    shown = pretty(content)
    assert json.loads(shown) == content
    assert shown.splitlines()[:3] == ["{", '  "partitions": {', '    "0": [1, 2, 3],']
    assert json.loads(pretty(list(range(100)))) == list(range(100))


def test_programs_get_the_data_as_it_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(data / "registry.sqlite")
    [node] = json.loads(show(capsys, "/brokers/ids/1/", "--data", file, "--format", "json"))
    assert node["data"] == {"host": "h", "port": 9092}
    assert node["ephemeral_owner"] == 1
    assert node["children"] == []


def test_looking_changes_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (data / "registry.sqlite").read_bytes()
    first = show(capsys, "--recursive", "--data", str(data))
    assert show(capsys, "--recursive", "--data", str(data)) == first
    assert (data / "registry.sqlite").read_bytes() == before


def test_a_node_that_is_not_there_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", "show", "/none", "--data", str(data)]) == 1
    assert "there is no node /none" in capsys.readouterr().err


def test_a_registry_that_is_not_there_is_named_and_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", "show", "--data", str(tmp_path)]) == 1
    assert f"there is no registry {tmp_path / 'registry.sqlite'}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"something else entirely, and long enough to be looked at\n" * 100])
def test_a_file_that_is_no_registry_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "registry.sqlite"
    path.write_bytes(content)
    assert main(["registry", "show", "--data", str(path)]) == 1
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize("path", ["brokers", "/a//b"])
def test_what_is_no_path_is_refused(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["registry", "show", path])
    assert "begins with a slash" in capsys.readouterr().err
