"""Where the brokers of tests come from: one host process for each process of tests, started with the first cluster and gone with its parent."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidelog.testing.errors import ClusterFailed, NotInTime

_GOODBYE_S: Final = 5.0
_LAST_WORDS_BYTES: Final = 4_096

_making: Final = threading.Lock()
_shared: Nursery | None = None


@dataclass(slots=True)
class Child:
    """A broker process, as far as is known; changed by the nursery alone."""

    key: str
    pid: int | None = None
    address: str | None = None  # once it serves
    code: int | None = None  # once it has ended; negative for a signal
    last_words: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet; it may be stopped."""
        return self.code is None


class Nursery:
    """Starts brokers and tells what became of them, to any thread that asks."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the host
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.testing.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            # Whoever ends the tests ends their whole group, as `timeout` does: somebody must be left to end the brokers and clear up.
            process_group=0,
        )
        self._children: dict[str, Child] = {}
        self._is_gone = False
        self._changed = threading.Condition()
        self._ordering = threading.Lock()
        self._count = 0
        self._listener = threading.Thread(target=self._listen, name="tidelog brokers", daemon=True)
        self._listener.start()
        atexit.register(self._close)

    @classmethod
    def shared(cls) -> Nursery:
        """The one of this process; a fork gets one of its own."""
        global _shared  # one process of tests, one host
        with _making:
            if _shared is None or not _shared.is_usable:
                _shared = cls()
            return _shared

    @property
    def is_usable(self) -> bool:
        """Whether its host lives, and is ours."""
        return self._owner == os.getpid() and not self._is_gone and self._process.poll() is None

    def new_key(self) -> str:
        """A name that no broker of this nursery has had."""
        with self._ordering:
            self._count += 1
            return str(self._count)

    def start(self, key: str, *, name: str, properties: Mapping[str, str], log: Path) -> Child:
        """Begin to start a broker; `wait` for its address. Raises ClusterFailed."""
        child = Child(key)
        with self._changed:
            self._children[key] = child
        self._order({"order": "start", "key": key, "name": name, "properties": dict(properties), "log": str(log)})
        return child

    def signal(self, child: Child, number: int) -> None:
        """Send a signal; one that has ended hears nothing. Raises ClusterFailed."""
        self._order({"order": "signal", "key": child.key, "number": int(number)})

    def look_after(self, scratch: Path) -> None:
        """See that a directory is removed whatever becomes of us. Raises ClusterFailed."""
        self._order({"order": "scratch", "path": str(scratch)})

    def forget(self, scratch: Path) -> None:
        """Such a directory has been removed. Raises ClusterFailed."""
        self._order({"order": "forget", "path": str(scratch)})

    def wait(self, child: Child, condition: Callable[[Child], bool], *, timeout_s: float, else_say: str) -> None:
        """Wait until the condition holds for the child. Raises NotInTime, or ClusterFailed if the host has ended."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(child) or self._is_gone, timeout_s):
                raise NotInTime(f"{else_say} after {timeout_s:g} s")
            if not condition(child):
                raise ClusterFailed(self._epitaph())

    def _order(self, order: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        try:
            with self._ordering:
                if stdin is None or self._owner != os.getpid():
                    raise ClusterFailed("a cluster belongs to the process that has started it")
                stdin.write((json.dumps(order) + "\n").encode())
                stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ClusterFailed(self._epitaph()) from None

    def _epitaph(self) -> str:
        self._complaints.seek(max(0, self._complaints.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
        last_words = self._complaints.read().decode(errors="backslashreplace").strip()
        return f"the process that all brokers are forked from has ended\n{last_words}".strip()

    def _listen(self) -> None:
        stdout = self._process.stdout
        if stdout is not None:
            for line in iter(stdout.readline, b""):
                with self._changed:
                    self._note(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()

    def _note(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "started":
                self._children[event["key"]].pid = event["pid"]
            case "ready":
                self._children[event["key"]].address = event["address"]
            case "died":
                child = self._children.pop(event["key"])
                child.last_words = tuple(event["last_words"])
                child.code = event["code"]

    def _close(self) -> None:
        """Have the host end everything, and wait for it, so that nobody is left when this process is gone."""
        if self._owner != os.getpid():
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(_GOODBYE_S)  # which has the other pipe, until its end
        if self._process.stdout is not None and not self._listener.is_alive():
            self._process.stdout.close()
        self._complaints.close()
