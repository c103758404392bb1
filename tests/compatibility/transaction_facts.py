"""What tests of transactions need, whichever client is in them: who coordinates, and somebody who consumes, transforms and produces."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from typing import Final, Self

from confluent_kafka import KafkaException, Producer

from tests.broker.conversation import Conversation
from tests.cluster.waiting import eventually
from tests.compatibility.group_facts import committed
from tests.compatibility.transactional_client import Aborted, Fenced, Make, TransactionalClient
from tidelog.model import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

END: Final = b"the end"
_JOIN_S: Final = 60
_TRANSACTION: Final = 1


def transaction_coordinator_of(bootstrap: str, transactional_id: str) -> int:
    """The broker that coordinates the transactions of an id, once there is one."""
    request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=(transactional_id,))
    with Conversation(bootstrap) as conversation:
        found = conversation.ask(request, 4).coordinators[0]
    return found.node_id if found.error_code is ErrorCode.NONE else 0


def id_coordinated_by(broker_id: int, bootstrap: str, name: str) -> str:
    """A transactional id of that name, but for a number, which the broker coordinates."""
    candidates = (f"{name}-{number}" for number in range(100))
    return next(each for each in candidates if transaction_coordinator_of(bootstrap, each) == broker_id)


def close_with_a_record(bootstrap: str, topic: str, partitions: range = range(1)) -> None:
    """A plain record after everything else: what comes before it in a partition was readable, or is never read."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for partition in partitions:
        producer.produce(topic, END, partition=partition)
    assert producer.flush(40) == 0


class Worker:
    """Reads one topic as a group and writes another, a transaction for what each poll brings. Use it as a context manager.

    It goes on as its users are told to: what fails is aborted and read again, and whoever is fenced begins anew.
    """

    def __init__(self, make: Make, bootstrap: str, source: str, *, transactional_id: str, group_id: str) -> None:
        self.transactional_id, self.group_id = transactional_id, group_id
        self.source, self.target = source, f"{source}-out"
        self.committed_count = 0  # records in transactions that were committed
        self.aborted_count = 0  # transactions
        self._make, self._bootstrap = make, bootstrap
        self._failure: BaseException | None = None
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_leaving.set()
        self._thread.join(_JOIN_S)
        assert not self._thread.is_alive(), "the client does not close"
        if self._failure is not None:
            raise self._failure

    def has_committed(self, count: int) -> bool:
        """Whether as many records went through; raises what it died of."""
        if self._failure is not None:
            raise self._failure
        return self.committed_count >= count

    def _run(self) -> None:
        try:
            while not self._is_leaving.is_set():
                with suppress(Fenced, Aborted):
                    self._work()
        except BaseException as failure:  # noqa: BLE001 the test raises it
            self._failure = failure

    def _work(self) -> None:
        with closing(self._make(self._bootstrap, self.transactional_id)) as client:
            # Whether the last transaction of the one before was committed, nobody may have heard.
            self.committed_count = self._committed()
            client.join(self.source, self.group_id)
            while not self._is_leaving.is_set():
                self._transform(client)

    def _committed(self) -> int:
        offsets = eventually(self._offsets, f"somebody knows what {self.group_id} has committed")
        return sum(max(offset, 0) for offset in offsets.values())

    def _offsets(self) -> dict[int, int] | None:
        with suppress(KafkaException):  # nobody coordinates the group at this moment
            return committed(self._bootstrap, self.source, self.group_id)
        return None

    def _transform(self, client: TransactionalClient) -> None:
        records = client.poll()
        if not records:
            return
        client.begin()
        try:
            for record in records:
                client.send(self.target, record.partition, record.value)
            client.send_offsets()
            client.commit()
        except Aborted:
            self.aborted_count += 1
            client.abort()
            client.rewind()
        else:
            self.committed_count += len(records)
