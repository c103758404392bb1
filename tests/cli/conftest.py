"""A broker for the commands, and a shell to run them in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import TidelogProcess


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with TidelogProcess(tmp_path_factory.mktemp("cli") / "data") as process:
        yield process.bootstrap


@pytest.fixture
def shell(bootstrap: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(bootstrap, capfdbinary, monkeypatch)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
