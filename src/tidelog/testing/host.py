"""The process that brokers of tests are forked from: `python -m tidelog.testing.host`, started by a nursery and spoken to in lines of JSON.

It has imported everything once, so that a broker serves some 0.2 s after it was asked for. It has one thread and no event loop, so that
forking is safe. When its orders end, because whoever gave them has died or has no more, it kills all brokers and removes the directories
that nobody wants to keep: no crash of a test leaves anything behind.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.cli.cluster_up import prepare_to_fork
from tidelog.cli.forked import Forked, fork
from tidelog.cli.lines import Lines
from tidelog.cli.plan import Plan
from tidelog.cli.serving import Ready, serve

_READY: Final = "ready bootstrap="
_READ_BYTES: Final = 1 << 20
_LAST_WORDS: Final = 20


@dataclass(slots=True, kw_only=True)
class _Broker:
    key: str
    child: Forked
    said: Lines = field(default_factory=Lines)
    complained: Lines = field(default_factory=Lines)
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_WORDS))


class Host:
    """Does what it is told on `orders`, and tells on `news` what becomes of brokers."""

    def __init__(self, orders: int, news: int) -> None:
        self._orders = orders
        self._news = news
        self._lines = Lines()
        self._brokers: dict[str, _Broker] = {}
        self._scratch: list[Path] = []
        self._is_over = False
        self._selector = selectors.DefaultSelector()
        self._woken, self._waking = os.pipe()

    def run(self) -> None:
        """Until the orders end."""
        for descriptor in (self._orders, self._woken, self._waking):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # When the tests die, ours is a group without a parent; one that has a stopped process, a paused broker, is then sent a SIGHUP.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        self._selector.register(self._orders, selectors.EVENT_READ, self._obey)
        self._selector.register(self._woken, selectors.EVENT_READ, self._notice)
        self._tell({"event": "up"})
        try:
            while not self._is_over:
                for key, _ in self._selector.select():
                    key.data()
                self._reap()
        finally:
            self._end()

    def _obey(self) -> None:
        content = os.read(self._orders, _READ_BYTES)
        if not content:
            self._is_over = True
        for line in self._lines.feed(content):
            order = json.loads(line)
            match order["order"]:
                case "start":
                    self._start(order["key"], order["name"], order["properties"], Path(order["log"]))
                case "signal":
                    self._signal(order["key"], order["number"])
                case "scratch":
                    self._scratch.append(Path(order["path"]))
                case "forget":
                    self._scratch.remove(Path(order["path"]))

    def _start(self, key: str, name: str, properties: Mapping[str, str], log: Path) -> None:
        plan = Plan(
            properties=properties,
            log_file=log,
            log_format="text",
            port_advice="let the cluster choose its ports",
            host_advice="",
        )
        child = fork(lambda: serve(plan, announce=_announce, is_alone=False), name=name)
        broker = self._brokers[key] = _Broker(key=key, child=child)
        for descriptor in (child.stdout, child.stderr):
            self._selector.register(descriptor, selectors.EVENT_READ, lambda: self._hear(broker))
        self._tell({"event": "started", "key": key, "pid": child.pid})

    def _signal(self, key: str, number: int) -> None:
        """A broker that died meanwhile hears nothing; that it died is told."""
        if (broker := self._brokers.get(key)) is not None:
            os.kill(broker.child.pid, number)  # it is ours to reap, so this is nobody else's process

    def _hear(self, broker: _Broker) -> None:
        broker.last_words.extend(broker.complained.feed(self._taken(broker.child.stderr)))
        for line in broker.said.feed(self._taken(broker.child.stdout)):
            if line.startswith(_READY):
                self._tell({"event": "ready", "key": broker.key, "address": line.removeprefix(_READY)})

    def _taken(self, descriptor: int) -> bytes:
        try:
            content = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return b""
        if not content and descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        return content

    def _notice(self) -> None:
        os.read(self._woken, _READ_BYTES)

    def _reap(self) -> None:
        for broker in list(self._brokers.values()):
            pid, status = os.waitpid(broker.child.pid, os.WNOHANG)
            if pid:
                self._bury(broker)
                self._tell(
                    {
                        "event": "died",
                        "key": broker.key,
                        "code": os.waitstatus_to_exitcode(status),
                        "last_words": list(broker.last_words),
                    }
                )

    def _bury(self, broker: _Broker) -> None:
        self._hear(broker)
        broker.last_words.extend(broker.complained.rest())
        for descriptor in (broker.child.stdout, broker.child.stderr):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        broker.child.close()
        del self._brokers[broker.key]

    def _end(self) -> None:
        for broker in self._brokers.values():
            os.kill(broker.child.pid, signal.SIGKILL)
        for broker in self._brokers.values():
            os.waitpid(broker.child.pid, 0)
        for path in self._scratch:
            shutil.rmtree(path, ignore_errors=True)

    def _tell(self, event: Mapping[str, Any]) -> None:
        try:
            os.write(self._news, (json.dumps(event) + "\n").encode())
        except BrokenPipeError:
            self._is_over = True  # nobody listens, so nobody will order


def _announce(ready: Ready, _plan: Plan) -> None:
    sys.stdout.write(f"{_READY}{ready.bootstrap}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve whoever has started this process."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    prepare_to_fork()
    Host(orders=0, news=1).run()


if __name__ == "__main__":
    main()
