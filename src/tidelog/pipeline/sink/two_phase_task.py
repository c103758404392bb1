"""A task of mode 2pc: it writes its rows in a transaction of its own, prepares it, and leaves it to the driver.

A task ends nobody's transaction but its own, and that only while it has not prepared it. An id under which it finds something open it leaves
alone: that may be decided already, or be written by another attempt.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.client import Admin, ClientError, Cluster, PreparedTransaction, Producer
from tidelog.client.bridge import Bridge
from tidelog.model import ErrorCode
from tidelog.pipeline.sink.errors import SinkFailed
from tidelog.pipeline.sink.ledger import Marker, marker_group
from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.prepared import CANDIDATES_MAX, announce_two_phase, task_ids
from tidelog.pipeline.sink.topics import unless_missing
from tidelog.pipeline.sink.two_phase_trouble import explained
from tidelog.pipeline.source.contact import Contact
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    from tidelog.pipeline.codec.encoding import EncodedBatch

T = TypeVar("T")

_contacted: Final[set[tuple[int, str]]] = set()
"""By process and brokers."""

_ABORT_TIMEOUT_S: Final = 5.0  # for a task that has failed already; what it leaves open the driver aborts


class TaskTransaction:
    """The transaction of one attempt, for callers that block. Use it as a context manager: what is not prepared by then is aborted.

    Raises BrokersSilent when it is made and nobody answers, and SinkFailed for all that brokers refuse.
    """

    def __init__(self, settings: SinkSettings, task: Task) -> None:
        self._settings = settings
        self._task = task
        self._runtime = real_runtime()
        self._config = settings.producer_config()
        self._producer: Producer | None = None
        _contact_once(settings)
        self._bridge = Bridge()
        in_flight_max = self._config.max_in_flight_requests_per_connection
        self._cluster = self._bridge.hold(Cluster(self._config, self._runtime, in_flight_max=in_flight_max))

    def __enter__(self) -> TaskTransaction:
        return self

    def __exit__(self, *_exc: object) -> None:
        with suppress(TimeoutError):
            self._bridge.close()

    def is_decided(self) -> bool:
        """Whether the micro-batch was committed before, so that its rows need not be written again. The driver asks more closely."""
        query_id, micro_batch_id = self._task.query_id, self._task.micro_batch_id
        if query_id is None or micro_batch_id is None:
            return False
        group_id = marker_group(self._settings.sink_id)
        admin = Admin(self._cluster, self._config, self._runtime)
        try:
            found = self._bridge.run(admin.groups.committed_offsets([group_id]))[group_id]
        except ClientError as error:
            raise SinkFailed(explained(error, self._settings)) from error
        markers = [] if isinstance(found, ErrorCode) else [Marker.parse(each) for each in found.values()]
        return any(
            marker is not None and marker.query_id == query_id and marker.micro_batch_id >= micro_batch_id
            for marker in markers
        )

    def write(self, batches: Iterator[tuple[str, EncodedBatch]]) -> tuple[PreparedTransaction | None, tuple[str, ...]]:
        """Write everything, and prepare; returns what the driver must know to end it, and which topics were written to.

        None if the micro-batch was decided meanwhile: a prepared transaction never times out, and its driver looks for it no more.
        """
        topics: dict[str, None] = {}
        try:
            announce_two_phase(self._settings)
            producer = self._begin()
            for topic, batch in batches:
                topics[topic] = None
                sending = producer.send_batch(topic, batch.partition, batch.data, batch.record_count)
                self._bridge.run(self._unless_missing(sending, topics))
            self._bridge.run(self._unless_missing(producer.flush(), topics))
            announce_two_phase(self._settings)  # whoever has removed it may not have seen our transaction
            if topics and self.is_decided():
                self._abort()
                return None, ()
            return self._bridge.run(producer.prepare_transaction()), tuple(topics)
        except ClientError as error:
            self._abort()
            raise SinkFailed(explained(error, self._settings)) from error
        except BaseException:
            self._abort()
            raise

    def _begin(self) -> Producer:
        """A producer under the first id that nobody has anything open under."""
        for transactional_id in self._ids():
            config = self._settings.producer_config(transactional_id=transactional_id, is_two_phase=True)
            producer = self._bridge.hold(Producer(self._cluster, config, self._runtime))
            if self._bridge.run(producer.init_transactions(keep_prepared=True)) is None:
                self._producer = producer
                self._bridge.run(_begun(producer))
                return producer
        raise SinkFailed(
            f"partition {self._task.partition} cannot be written: {CANDIDATES_MAX} earlier attempts under sink id "
            f"{self._settings.sink_id!r} have transactions open that no driver has ended yet"
        )

    def _unless_missing(self, work: Coroutine[Any, Any, T], topics: Collection[str]) -> Coroutine[Any, Any, T]:
        return unless_missing(work, self._cluster, self._config, self._runtime, topics)

    def _ids(self) -> Iterator[str]:
        run = zlib.crc32((self._task.run_id or "").encode())
        attempt = self._task.attempt
        return task_ids(self._settings.sink_id, run=run, partition=self._task.partition, attempt=attempt)

    def _abort(self) -> None:
        """So that readers do not wait for the driver. Where that does not work the driver does it, and the failure is told that led here."""
        if self._producer is not None:
            with suppress(ClientError, TimeoutError):
                self._bridge.run(self._producer.abort_transaction(), timeout_s=_ABORT_TIMEOUT_S)


def _contact_once(settings: SinkSettings) -> None:
    """Where nobody answers, say so in plain words and soon. A worker that has heard of the brokers before trusts them."""
    key = (os.getpid(), settings.properties["bootstrap.servers"])
    if key not in _contacted:
        Contact(settings.client_config()).close()
        _contacted.add(key)


async def _begun(producer: Producer) -> None:
    producer.begin_transaction()
