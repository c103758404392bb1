"""What a cluster in the foreground tells its user: one line for programs, sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from tidelog.cli.supervisor import READY


class ClusterVoice:
    """The ready line to stdout, everything else to stderr, with the name of the broker that says it."""

    def __init__(self, out: TextIO, err: TextIO, text: str) -> None:
        self._out = out
        self._err = err
        self._welcome = text

    def ready(self, bootstrap: str, metrics: Sequence[str]) -> None:
        """The one line programs wait for, and more for people."""
        self._out.write(f"{READY}{bootstrap}\n")
        if self._out.isatty():
            shown = " ".join(metrics) or "not shown"
            self._out.write(self._welcome.format(first=bootstrap.partition(",")[0], metrics=shown))
        self._out.flush()

    def say(self, text: str) -> None:
        """A sentence about a broker."""
        self._write(f"tidelog: {text}\n")

    def quote(self, broker_id: int, line: str) -> None:
        """A line of a broker; one of JSON stays JSON."""
        is_json = line.startswith('{"')
        self._write(f'{{"broker": {broker_id}, {line[1:]}\n' if is_json else f"broker {broker_id}: {line}\n")

    def _write(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except OSError:
            return  # Nobody listens any more; the brokers go on.
