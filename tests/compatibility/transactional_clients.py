"""Stock Python clients in transactions: confluent-kafka, kafka-python, aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import aiokafka
import kafka
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata

from tests.compatibility.transactional_client import Aborted, Fenced, Read, TransactionalClient

PATIENCE_S: Final = 60
_CALL_S: Final = 60
_OFFSETS_S: Final = 5
_POLL_S: Final = 0.2
_SESSION_MS: Final = 10_000
_HEARTBEAT_MS: Final = 500
_METADATA_AGE_MS: Final = 1_000
_OVER: Final = (KafkaError._FENCED, KafkaError._STATE)  # noqa: SLF001 that is what librdkafka calls them
T = TypeVar("T")


class ConfluentTransactions(TransactionalClient):
    """confluent-kafka, on librdkafka.

    librdkafka (2.16) lets go of brokers that metadata no longer names, but remembers them as coordinators of groups for as long as metadata
    may be old. While it does, sending offsets waits, past its timeout, until the connection to any broker comes or goes (its issues 5511
    and 5456). So metadata is young here, and connections that idle are closed.

    It joins anew by itself, also between two records of one poll. So what a poll brings belongs to the member that polled: who one is
    afterwards may be somebody new, whose offsets no broker refuses, and who reads the same records again.
    """

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms=timeout_ms)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "metadata.max.age.ms": _METADATA_AGE_MS,
                "connections.max.idle.ms": 2 * _METADATA_AGE_MS,
                "log_level": 0,
            }
        )
        self._consumer: Consumer | None = None
        self._polled_as: object = None
        with _confluent_errors():
            _until_it_works(lambda: self._producer.init_transactions(_CALL_S))

    def begin(self) -> None:
        with _confluent_errors():
            self._producer.begin_transaction()
        self._member_then = self._polled_as

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with _confluent_errors():
            self._producer.produce(topic, value, partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(_CALL_S) == 0

    def commit(self) -> None:
        with _confluent_errors():
            _until_it_works(lambda: self._producer.commit_transaction(_CALL_S))

    def abort(self) -> None:
        with _confluent_errors():
            _until_it_works(lambda: self._producer.abort_transaction(_CALL_S))

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def join(self, topic: str, group_id: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {**confluent_reader_settings(self.bootstrap, group_id), "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Read]:
        self._polled_as = self._member.consumer_group_metadata()
        was_member = bool(self._member.assignment())
        found = confluent_read(self._member)
        if found and not was_member:  # joined meanwhile: nobody polled them
            self.rewind()
            return []
        return self._read(found)

    def send_offsets(self) -> None:
        places = [TopicPartition(self._topic, index, offset) for index, offset in self._taken_positions().items()]
        with _confluent_errors():
            self._producer.send_offsets_to_transaction(places, self._member_then, _OFFSETS_S)

    def rewind(self) -> None:
        self._positions.clear()
        try:
            committed = self._member.committed(self._member.assignment(), timeout=_CALL_S)
        except KafkaException as failure:  # nobody coordinates the group at this moment: begin anew
            raise Aborted(str(failure)) from failure
        for place in committed:
            with contextlib.suppress(
                KafkaException
            ):  # no longer ours: whoever owns it now begins where it was committed
                self._member.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))

    @property
    def _member(self) -> Consumer:
        assert self._consumer is not None, "join first"
        return self._consumer


class KafkaPythonTransactions(TransactionalClient):
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms=timeout_ms)
        self._consumer: kafka.KafkaConsumer | None = None
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=1_000 * _CALL_S,
        )
        try:
            with _kafka_python_errors():
                self._producer.init_transactions()
        except (Fenced, Aborted):
            self.close()
            raise

    def begin(self) -> None:
        with _kafka_python_errors():
            self._producer.begin_transaction()
        if self._consumer is not None:
            self._member_then = self._consumer.group_metadata()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with _kafka_python_errors():
            self._producer.send(topic, value, partition=partition)

    def flush(self) -> None:
        self._producer.flush(timeout=_CALL_S)

    def commit(self) -> None:
        with _kafka_python_errors():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _kafka_python_errors():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)
        if self._consumer is not None:
            self._consumer.close(autocommit=False)

    def join(self, topic: str, group_id: str) -> None:
        self._topic = topic
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
        )
        # What it learns of a topic while it joins makes it join once more, and if a poll ends meanwhile it forgets that (3.0.12). So it
        # learns before.
        self._consumer.partitions_for_topic(topic)

    def poll(self) -> list[Read]:
        found = self._member.poll(timeout_ms=int(1000 * _POLL_S))
        return self._read([Read(one.partition, one.offset, one.value) for records in found.values() for one in records])

    def send_offsets(self) -> None:
        offsets = {
            kafka.TopicPartition(self._topic, index): OffsetAndMetadata(offset, "", -1)
            for index, offset in self._taken_positions().items()
        }
        with _kafka_python_errors():
            self._producer.send_offsets_to_transaction(offsets, self._member_then)

    def rewind(self) -> None:
        self._positions.clear()
        for place in self._member.assignment():
            self._member.seek(place, self._member.committed(place) or 0)

    @property
    def _member(self) -> kafka.KafkaConsumer:
        assert self._consumer is not None, "join first"
        return self._consumer


class _Membership(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Whether partitions that were given have been taken away."""

    def __init__(self) -> None:
        self._has_lost = False

    def on_partitions_assigned(self, assigned: Iterable[aiokafka.TopicPartition]) -> None:
        """What was there before has been told."""

    def on_partitions_revoked(self, revoked: Iterable[aiokafka.TopicPartition]) -> None:
        """A membership ends; before the first one there is nothing."""
        self._has_lost = self._has_lost or bool(list(revoked))

    def check(self) -> None:
        """Raises Fenced."""
        if self._has_lost:
            raise Fenced("the partitions were taken away")


class AiokafkaTransactions(TransactionalClient):
    """aiokafka, on a loop that runs while somebody waits.

    It tells the name of the group only (it is older than KIP-447), so no broker refuses offsets of a membership that is over. Whoever loses
    partitions reads from what is committed when it is given them again, so again what is in the transaction at hand: it is over then.

    A transaction that failed it forgets (0.14): its `abort` tells no broker, and the next one to be committed takes the records along. So
    whatever fails, it is over.
    """

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms=timeout_ms)
        self._runner = asyncio.Runner()
        self._consumer: aiokafka.AIOKafkaConsumer | None = None
        self._membership = _Membership()
        self._sent: list[asyncio.Future[Any]] = []
        try:
            self._run(self._start())
        except Fenced:
            self.close()
            raise

    async def _start(self) -> None:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
        )
        await self._producer.start()

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sent.append(self._run(self._producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        async def flush() -> None:
            await asyncio.wait(self._sent)

        if self._sent:
            self._run(flush())

    def commit(self) -> None:
        self._membership.check()
        try:
            self._run(self._producer.commit_transaction())
        finally:
            self._forget_sent()

    def abort(self) -> None:
        try:
            self._run(self._producer.abort_transaction())
        finally:
            self._forget_sent()

    def close(self) -> None:
        self._forget_sent()
        with self._runner:
            self._runner.run(self._stop())

    async def _stop(self) -> None:
        with contextlib.suppress(AiokafkaError, TimeoutError):
            await asyncio.wait_for(self._producer.stop(), _CALL_S)
        await self._producer.client.close()  # what a stop that failed has left open
        if self._consumer is not None:
            # A fetch that waits before it asks again ends the stop as if somebody had cancelled it.
            with contextlib.suppress(asyncio.CancelledError):
                await self._consumer.stop()
            await self._consumer._client.close()  # noqa: SLF001 there is no other way to it

    def join(self, topic: str, group_id: str) -> None:
        async def join() -> None:
            self._consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                group_id=group_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                session_timeout_ms=_SESSION_MS,
                heartbeat_interval_ms=_HEARTBEAT_MS,
            )
            self._consumer.subscribe([topic], listener=self._membership)
            await self._consumer.start()

        self._topic, self._group_id, self._membership = topic, group_id, _Membership()
        self._run(join())

    def poll(self) -> list[Read]:
        self._membership.check()
        found = self._run(self._member.getmany(timeout_ms=int(1000 * _POLL_S)))
        return self._read([Read(one.partition, one.offset, one.value) for records in found.values() for one in records])

    def send_offsets(self) -> None:
        offsets = {
            aiokafka.TopicPartition(self._topic, index): offset for index, offset in self._taken_positions().items()
        }
        self._run(self._producer.send_offsets_to_transaction(offsets, self._group_id))

    def rewind(self) -> None:
        async def rewind() -> None:
            for place in self._member.assignment():
                self._member.seek(place, await self._member.committed(place) or 0)

        self._positions.clear()
        self._run(rewind())

    @property
    def _member(self) -> aiokafka.AIOKafkaConsumer:
        assert self._consumer is not None, "join first"
        return self._consumer

    def _forget_sent(self) -> None:
        for future in self._sent:
            if future.done() and not future.cancelled():
                future.exception()  # seen: what failed is aborted
        self._sent.clear()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await call

        try:
            return self._runner.run(bounded())
        except (AiokafkaError, AssertionError) as failure:  # the second is its word for being over
            raise Fenced(str(failure)) from failure


CLIENTS: Final[Mapping[str, type[TransactionalClient]]] = {
    "confluent": ConfluentTransactions,
    "kafka-python": KafkaPythonTransactions,
    "aiokafka": AiokafkaTransactions,
}


def confluent_reader_settings(bootstrap: str, group_id: str) -> dict[str, Any]:
    """Of somebody who reads what is committed."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": _SESSION_MS,
        "heartbeat.interval.ms": _HEARTBEAT_MS,
        "log_level": 0,
    }


def confluent_read(consumer: Consumer, timeout_s: float = _POLL_S) -> list[Read]:
    """What came in, if anything did."""
    messages = [message for message in consumer.consume(100, timeout=timeout_s) if message.error() is None]
    return [Read(one.partition() or 0, one.offset() or 0, one.value() or b"") for one in messages]


def _until_it_works(call: Any) -> None:
    """librdkafka's calls may be repeated when they say so: they go on where they were."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.retriable() or time.monotonic() > deadline_s:
                raise
        else:
            return


@contextlib.contextmanager
def _confluent_errors() -> Iterator[None]:
    try:
        yield
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        if error.txn_requires_abort() or error.retriable():
            raise Aborted(str(failure)) from failure
        if error.fatal() or error.code() in _OVER:
            raise Fenced(str(failure)) from failure
        raise


@contextlib.contextmanager
def _kafka_python_errors() -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as failure:
        raise Fenced(str(failure)) from failure
    except KafkaPythonError as failure:
        raise Aborted(str(failure)) from failure
