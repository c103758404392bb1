"""Commands as a shell would run them, in this process."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tidelog.cli.main import main


class Shell:
    """Runs commands as a shell would, in this process."""

    def __init__(self, bootstrap: str, capture: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        self._bootstrap = bootstrap
        self._capture = capture
        self._monkeypatch = monkeypatch
        self.exit_code = 0
        self.errors = ""

    def __call__(self, *words: str, stdin: bytes = b"") -> bytes:
        """What the command writes to stdout; its exit code and errors are kept."""
        self._monkeypatch.setenv("TIDELOG_BOOTSTRAP", self._bootstrap)
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            self.exit_code = main(words)
        except SystemExit as exited:
            self.exit_code = int(exited.code or 0)
        captured = self._capture.readouterr()
        self.errors = captured.err.decode()
        return captured.out

    def ok(self, *words: str, stdin: bytes = b"") -> bytes:
        """The same for a command that must succeed."""
        out = self(*words, stdin=stdin)
        assert self.exit_code == 0, self.errors
        return out


def on_terminal(command: Sequence[str], *, until: str = "Ctrl-C stops") -> str:
    """What a command prints when its stdout is a terminal, up to a line that holds `until`."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while until.encode() not in said:
            said += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    os.close(ours)
    return said.decode()
