"""Java and JavaScript clients in transactions: many in one process, which a driver tells what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import count
from typing import Final

from tests.compatibility.drivers import ClientError, Driver
from tests.compatibility.transactional_client import Aborted, Fenced, Read, TransactionalClient

_OVER: Final = ("ProducerFencedException", "InvalidProducerEpochException", "IllegalStateException")
# The errors of KafkaJS. After a failure it numbers the next records as those that failed, so only a new producer may go on.
_JAVASCRIPT: Final = "KafkaJS"
_numbers: Final = count()


class DrivenTransactions(TransactionalClient):
    """A client of another language. Values are text without tabs."""

    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000, driver: Driver, extra: str = ""
    ) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms=timeout_ms)
        self._driver, self._extra = driver, extra
        self._name = f"transactional-{next(_numbers)}"
        settings = f"transactional.id={transactional_id} transaction.timeout.ms={timeout_ms} max.block.ms=30000"
        self._ask("open", settings=settings)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._ask("send", topic, partition, value.decode())

    def flush(self) -> None:
        self._ask("flush")

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._driver.ask("transact-close", self._name, "")

    def join(self, topic: str, group_id: str) -> None:
        self._ask("join", topic, settings=f"group.id={group_id} {self._extra}".rstrip())

    def poll(self) -> list[Read]:
        rows = self._ask("poll")
        return [Read(int(partition), int(offset), value.encode()) for partition, offset, value in rows]

    def send_offsets(self) -> None:
        self._ask("offsets")

    def rewind(self) -> None:
        self._ask("rewind")

    def _ask(self, command: str, *fields: object, settings: str = "") -> list[list[str]]:
        with _errors():
            return self._driver.ask(f"transact-{command}", self._name, *fields, settings)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except ClientError as failure:
        if failure.name in _OVER or failure.name.startswith(_JAVASCRIPT):
            raise Fenced(str(failure)) from failure
        raise Aborted(str(failure)) from failure
