"""A bank whose accounts are partitions: clerks move money in transactions, and what anybody may read of it is judged at the end.

The money is right if every transfer that a reader sees is there with all its parts, once and in order, if none that was aborted is there, and
if all that a clerk was told were done are. What a clerk was told nothing about may be there or not, as a whole.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, Self

from confluent_kafka import Consumer, TopicPartition

from tests.cluster.bank_teller import ACCOUNTS
from tests.cluster.waiting import eventually
from tests.compatibility.processes import ProcessFailed, RunningProcess

TOPIC: Final = "accounts"
_STOP_S: Final = 60
_POLL_S: Final = 0.2


class Booked(Protocol):
    """Somebody who knows what was said about each transfer."""

    book: dict[str, str]


class Clerk:
    """One transactional id and the process that goes by it at present, with a book of what was said about each transfer."""

    def __init__(self, bootstrap: str, transactional_id: str, seed: int, kind: str) -> None:
        self.transactional_id = transactional_id
        self.book: dict[str, str] = {}  # transfer: what was last said of it
        self.done_count = 0
        self.fenced_count = 0
        self._bootstrap, self._seed, self._kind = bootstrap, seed, kind
        self._incarnation = 0
        self._threads: list[threading.Thread] = []
        self.process = self.hire()

    def hire(self) -> RunningProcess:
        """Have another process go by the id, whatever becomes of the last one; returns the last one's successor."""
        self._incarnation += 1
        words = [self._bootstrap, TOPIC, self.transactional_id, str(self._incarnation), str(self._seed), self._kind]
        self.process = RunningProcess([sys.executable, "-m", "tests.cluster.bank_teller", *words], has_input=True)
        thread = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return self.process

    def goes_on(self) -> None:
        """Wait until it has committed some more; one that was fenced meanwhile is replaced."""
        goal = self.done_count + 3

        def is_reached() -> bool:
            if self.process.process.poll() is not None:
                self.process.stop()
                self.hire()
            return self.done_count >= goal

        eventually(is_reached, f"{self.transactional_id} goes on")

    def stop(self) -> None:
        """Tell it to end and wait until it has."""
        if self.process.process.poll() is None:
            try:
                self.process.write_line("stop")
                self.process.process.wait(_STOP_S)
            except ProcessFailed:
                pass  # it ended by itself
        self.process.stop()
        for thread in self._threads:
            thread.join(_STOP_S)

    def _listen(self, process: RunningProcess) -> None:
        while True:
            try:
                said = process.wait_for(r"^(commit|abort|done|failed|fenced) (\S+)", timeout_s=10 * _STOP_S)
            except ProcessFailed:
                return
            word, name = said[1], said[2]
            if word == "fenced":
                self.fenced_count += 1
            elif word == "done":
                self.done_count += self.book[name] == "commit"
                self.book[name] += " done"
            else:
                self.book[name] = word


class Part(NamedTuple):
    """A record of a transfer that was read."""

    transfer: str
    account: int
    moves: dict[int, int]
    is_aborted: bool


@dataclass(slots=True)
class Reader:
    """Reads what is committed while it happens, in a thread of its own. Use it as a context manager."""

    bootstrap: str
    parts: dict[int, list[Part]] = field(default_factory=lambda: defaultdict(list))  # by account, in order
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _ends: dict[int, int] | None = None
    _offsets: dict[int, int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def has_read(self, ends: dict[int, int]) -> bool:
        """Whether everything before these offsets was read, as far as there is something to read."""
        return all(self._offsets.get(account, 0) >= end for account, end in ends.items())

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, account, 0) for account in range(ACCOUNTS)])
        while not self._is_over.is_set():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            account, offset = message.partition() or 0, message.offset() or 0
            if message.error() is not None:
                self._offsets[account] = max(self._offsets.get(account, 0), offset)  # the end of what is stable
                continue
            told = json.loads(message.value() or b"{}")
            moves = {int(each): amount for each, amount in told["moves"].items()}
            self.parts[account].append(Part(told["transfer"], told["account"], moves, told["is_aborted"]))
            self._offsets[account] = offset + 1
        consumer.close()


def judge(parts_by_account: Mapping[int, Sequence[Part]], clerks: Iterable[Booked]) -> Counter[str]:
    """Raises AssertionError with all that is wrong; returns how many transfers there were of which kind."""
    book = {name: said for clerk in clerks for name, said in clerk.book.items()}
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    moves: dict[str, dict[int, int]] = {}
    wrong: list[str] = []
    total = 0
    for account, parts in sorted(parts_by_account.items()):
        wrong += [f"account {account} has {part}" for part in parts if part.account != account or part.is_aborted]
        wrong += [f"account {account}: {name} out of order" for name in _out_of_order(parts)]
        for part in parts:
            seen[part.transfer][account] += 1
            moves[part.transfer] = part.moves
            total += part.moves[account]
    for name, counts in sorted(seen.items()):
        if counts != Counter(dict.fromkeys(moves[name], 1)):
            wrong.append(f"{name} ({book.get(name)}) is torn or doubled: {dict(counts)} of {moves[name]}")
    wrong += [f"{name} is lost" for name, said in sorted(book.items()) if said == "commit done" and name not in seen]
    wrong += [
        f"{name} was {said}, and is there" for name, said in book.items() if name in seen and "commit" not in said
    ]
    assert not wrong, "\n".join(wrong[:20])
    assert total == 0
    return Counter(book.values()) + Counter({"seen": len(seen)})


def _out_of_order(parts: Sequence[Part]) -> list[str]:
    last: dict[str, tuple[int, int]] = {}
    found = []
    for part in parts:
        clerk, incarnation, number = part.transfer.rsplit(".", 2)
        place = (int(incarnation), int(number))
        if place <= last.get(clerk, (0, -1)):
            found.append(part.transfer)
        last[clerk] = place
    return found
