"""A cluster for a test: real brokers and real sockets, verbs for what may happen to them, and verbs that wait for what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

from tidelog.cli.together import are_together
from tidelog.client import (
    Admin,
    BrokersUnreachable,
    ClientError,
    ConsumedRecord,
    Consumer,
    DeliveryTimeout,
    NewTopic,
    Producer,
    TopicUnavailable,
)
from tidelog.client.admin_faults import FAULTS_CLIENT_ID
from tidelog.client.leader_moves import move_leader
from tidelog.coordinator.placement import partition_of
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.testing.errors import ClusterFailed, NotInTime
from tidelog.testing.faults import FaultDesk, Peer
from tidelog.testing.fleet import Fleet
from tidelog.testing.looking import (
    coordinator_of,
    described_group,
    lagging,
    leading_replica,
    no_partition,
    replica_table,
    until,
    watched_replica,
)

T = TypeVar("T")

START_S: Final = 60.0
WAIT_S: Final = 30.0
_POLL_MS: Final = 500
_PRODUCE_MS_MIN: Final = 2  # a millisecond to wait for company, and one for the answer
_REQUEST_MS: Final = 30_000
_SLACK_S: Final = 1.0
_GLANCE_S: Final = 1.0
_OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What a topic of a test is like. Without a number of replicas it has as many as there are brokers, three at most."""

    partitions: int = 1
    replicas: int | None = None
    config: Mapping[str, str | int | float] = field(default_factory=dict)


Topics: TypeAlias = Iterable[str] | Mapping[str, int | Topic]
"""Names; or by name a number of partitions, or a Topic."""


class AsyncCluster:
    """Brokers for a test that runs on an event loop: `async with AsyncCluster(3) as kafka`. `Cluster` is the same for one that does not.

    `config` has settings of the brokers by their Kafka names. Without `data` nothing is kept. Several clusters may be there at once, in as
    many processes as one likes. Every verb has a bound, and raises ClusterFailed, or NotInTime, with a sentence that says what was seen.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Topics = (),
        config: Mapping[str, str | int | float | bool] | None = None,
        data: str | Path | None = None,
        timeout_s: float = START_S,
    ) -> None:
        settings = {name: _text(value) for name, value in (config or {}).items()}
        self._topics = _as_topics(topics)
        self._timeout_s = timeout_s
        place = None if data is None else Path(data).absolute()
        self._fleet = Fleet(brokers, settings, data=place, timeout_s=timeout_s)
        self._stack = AsyncExitStack()
        self._admin: Admin | None = None
        self._is_touched = False  # whether anything was done to brokers since they were last as they should be
        self._faults = FaultDesk(lambda: self._ask, self._at_work)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def bootstrap_servers(self) -> str:
        """What clients are told: host:port of every broker, with commas between."""
        return ",".join(self._fleet.addresses)

    @property
    def broker_ids(self) -> list[BrokerId]:
        """From 1 on, dead ones too."""
        return self._fleet.broker_ids

    @property
    def data(self) -> Path:
        """Where the brokers keep their logs (`broker-N`), and what they have to say (`logs/broker-N.log`)."""
        return self._fleet.data

    def log(self, broker: BrokerId) -> str:
        """The end of what a broker has logged, over all its lives."""
        return self._fleet.log_tail(broker)

    def pid(self, broker: BrokerId) -> int:
        """The process of a broker, for those who measure it."""
        return self._fleet.pid(broker)

    def is_alive(self, broker: BrokerId) -> bool:
        """Whether a broker's process is there; it may be paused."""
        return self._fleet.is_alive(broker)

    # --- beginning and end --------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all brokers, and wait until they serve and know each other."""
        await asyncio.to_thread(self._fleet.start_all)
        try:
            await self._until_together()
            self._admin = await self._stack.enter_async_context(
                Admin(self.bootstrap_servers, {"client.id": FAULTS_CLIENT_ID})
            )
            await self._create(self._topics, self._timeout_s)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End all brokers, and remove what they kept unless `data` was given. Harmless when done twice."""
        self._admin = None
        try:
            await self._stack.aclose()
        finally:
            await asyncio.to_thread(self._fleet.close)

    async def restore(self, *, timeout_s: float = START_S) -> None:
        """Make the cluster whole again, whatever was done to it: all brokers at work, no faults, all replicas in sync.

        Topics and records stay as they are.
        """
        was_touched = self._is_touched or len(self._at_work()) < len(self.broker_ids)
        if was_touched:
            await asyncio.to_thread(self._fleet.restore)
        await self._faults.end_all()
        if was_touched:
            await self._until_together()
            wanted = "all replicas to be in sync again"
            await self._until(lambda: lagging(self._ask), lambda found: not found, wanted=wanted, timeout_s=timeout_s)
        self._is_touched = False

    # --- topics and records -------------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        config: Mapping[str, str | int | float] | None = None,
        timeout_s: float = WAIT_S,
    ) -> str:
        """Create a topic, and wait until every broker can tell who leads it; returns its name."""
        await self._create({name: Topic(partitions=partitions, replicas=replicas, config=config or {})}, timeout_s)
        return name

    async def produce(
        self,
        topic: str,
        values: Iterable[bytes | str],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timeout_s: float = WAIT_S,
    ) -> None:
        """Send values, and wait until all are acknowledged by all replicas in sync."""
        if partition is not None and (wrong := await self._no_such_partition(topic, partition)):
            raise ClusterFailed(wrong)
        limit_ms = max(int(timeout_s * 1_000), _PRODUCE_MS_MIN)
        settings = {
            "linger.ms": 1,
            "max.block.ms": limit_ms,
            "request.timeout.ms": min(limit_ms - 1, _REQUEST_MS),
            "delivery.timeout.ms": limit_ms,
        }
        try:
            # The producer has the same bound and knows why; ours is for one that had to wait for metadata, too.
            async with asyncio.timeout(timeout_s + _SLACK_S), Producer(self.bootstrap_servers, settings) as producer:
                sent = [
                    await producer.send(
                        topic, _bytes(value), key=None if key is None else _bytes(key), partition=partition
                    )
                    for value in values
                ]
                for delivery in sent:
                    await delivery
        except (TimeoutError, DeliveryTimeout, TopicUnavailable, BrokersUnreachable) as error:
            why = str(error) or self._why_no_answer()
            raise NotInTime(f"values sent to {topic}: not within {timeout_s:g} s; last seen: {why}") from error
        except ClientError as error:
            raise ClusterFailed(f"values cannot be sent to {topic}: {error}") from error

    async def records(
        self, topic: str, *, at_least: int = 0, isolation_level: str = "read_committed", timeout_s: float = WAIT_S
    ) -> list[ConsumedRecord]:
        """All records of a topic, partition by partition; waits until there are `at_least` so many."""
        found: list[ConsumedRecord] = []

        async def look() -> int:
            found[:] = await self._records(topic, isolation_level)
            return len(found)

        wanted = f"{at_least} records in {topic}"
        await self._until(look, lambda count: count >= at_least, wanted=wanted, timeout_s=timeout_s)
        return found

    # --- what may happen to brokers ---------------------------------------------------------------------------------------------------------

    async def kill(self, broker: BrokerId) -> None:
        """SIGKILL: gone at once, whatever it was doing. It stays so until `start_broker`."""
        self._is_touched = True
        await asyncio.to_thread(self._fleet.kill, broker)

    async def stop(self, broker: BrokerId) -> None:
        """SIGTERM: it hands over what it leads, and leaves."""
        self._is_touched = True
        await asyncio.to_thread(self._fleet.stop, broker)

    async def start_broker(self, broker: BrokerId) -> None:
        """Start a broker that was killed or stopped, with its data, at its address, and wait until it serves."""
        await asyncio.to_thread(self._fleet.start, broker)

    async def restart(self, broker: BrokerId) -> None:
        """Stop a broker cleanly, and start it again."""
        await self.stop(broker)
        await self.start_broker(broker)

    async def pause(self, broker: BrokerId) -> None:
        """SIGSTOP: alive and silent. The others take it for dead after a while, and it does not know."""
        self._is_touched = True
        await asyncio.to_thread(self._fleet.pause, broker)

    async def resume(self, broker: BrokerId) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        await asyncio.to_thread(self._fleet.resume, broker)

    async def move_leader(
        self, topic: str, partition: int = 0, *, to: BrokerId | None = None, timeout_s: float = WAIT_S
    ) -> BrokerId:
        """Let another replica in sync lead, or the one that is named; returns which."""
        place = TopicPartition(topic, partition)
        await self._until(
            lambda: watched_replica(self._ask, place),
            lambda seen: seen is not None,
            wanted=f"a leader of {place}",
            timeout_s=timeout_s,
        )
        wanted = f"another leader of {place}" if to is None else f"broker {to} to lead {place}"
        chosen = await self._answer(move_leader(self._ask, place, to), wanted=wanted, timeout_s=timeout_s)
        return await self.wait_for_leader(topic, partition, broker=chosen, timeout_s=timeout_s)

    async def move_coordinator(self, group: str, *, to: BrokerId | None = None, timeout_s: float = WAIT_S) -> BrokerId:
        """Let another broker look after a consumer group, or the one that is named; returns which."""
        await self.coordinator(group, timeout_s=timeout_s)  # or there may be no such topic yet
        asked = self._ask.describe_topics([_OFFSETS_TOPIC])
        wanted = f"a description of {_OFFSETS_TOPIC}"
        described = (await self._answer(asked, wanted=wanted, timeout_s=timeout_s))[_OFFSETS_TOPIC]
        if isinstance(described, ErrorCode):
            raise ClusterFailed(f"{_OFFSETS_TOPIC} cannot be described: {described.name}")
        moved = await self.move_leader(
            _OFFSETS_TOPIC, partition_of(group, len(described.partitions)), to=to, timeout_s=timeout_s
        )
        return await self._until(
            lambda: coordinator_of(self._ask, group),
            lambda found: found == moved,
            wanted=f"broker {moved} to look after group {group}",
            timeout_s=timeout_s,
        )

    # --- what may go wrong in between -------------------------------------------------------------------------------------------------------

    async def cut(self, broker: BrokerId, peer: Peer) -> None:
        """Let nothing pass between two brokers, or with `"clients"` between a broker and all clients: requests and answers wait."""
        self._is_touched = True
        await self._faults.cut(broker, peer)

    async def mend(self, broker: BrokerId | None = None, peer: Peer | None = None) -> None:
        """Let everything pass again: on one link, on all of one broker, or on all."""
        await self._faults.mend(broker, peer)

    async def fill_disk(self, broker: BrokerId) -> None:
        """Let a broker find no room to write; what it has can still be read."""
        self._is_touched = True
        await self._faults.fill_disk(broker)

    async def free_disk(self, broker: BrokerId) -> None:
        """Let it find room again."""
        await self._faults.free_disk(broker)

    async def fail(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        broker: BrokerId | None = None,
        of_brokers: bool = False,
    ) -> None:
        """Answer so many requests to a broker, or to each, with an error and do nothing of what they ask; with None until it is ended.

        Names are Kafka's: `fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3)`. Requests are those of clients unless `of_brokers` is set.
        """
        self._is_touched = True
        await self._faults.fail(api, error, times=times, broker=broker, of_brokers=of_brokers)

    async def delay(
        self,
        api: str,
        delay_ms: int,
        *,
        times: int | None = None,
        broker: BrokerId | None = None,
        of_brokers: bool = False,
    ) -> None:
        """Look at requests so much later, all of them until it is ended or so many: `delay("Fetch", 500)`."""
        self._is_touched = True
        await self._faults.delay(api, delay_ms, times=times, broker=broker, of_brokers=of_brokers)

    async def end_faults(self) -> None:
        """Let nothing go wrong any more."""
        await self._faults.end_all()

    async def faults(self) -> dict[BrokerId, list[str]]:
        """What goes wrong on each broker at work, in words."""
        return await self._faults.all()

    # --- what comes of it ---------------------------------------------------------------------------------------------------------------------

    async def leader(self, topic: str, partition: int = 0, *, timeout_s: float = WAIT_S) -> BrokerId | None:
        """Who leads a partition now; None if nobody does."""
        place = TopicPartition(topic, partition)
        wanted = f"brokers to tell who leads {place}"
        told = await self._answer(leading_replica(self._ask, place), wanted=wanted, timeout_s=timeout_s)
        return None if told is None else told.leader_id

    async def controller(self, *, timeout_s: float = WAIT_S) -> BrokerId:
        """Which broker is the controller: whoever is cut from it can neither grow nor shrink the replicas in sync."""

        async def look() -> BrokerId:
            return (await self._ask.describe_cluster()).controller_id

        return await self._until(
            look, lambda found: found in self._at_work(), wanted="a controller", timeout_s=timeout_s
        )

    async def coordinator(self, group: str, *, timeout_s: float = WAIT_S) -> BrokerId:
        """Which broker looks after a consumer group."""
        wanted = f"a coordinator of group {group}"
        return await self._until(
            lambda: coordinator_of(self._ask, group), lambda _: True, wanted=wanted, timeout_s=timeout_s
        )

    async def wait_for_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        broker: BrokerId | None = None,
        other_than: BrokerId | None = None,
        timeout_s: float = WAIT_S,
    ) -> BrokerId:
        """Wait until a partition is led: by anybody, by this broker, or by any but that one; returns by whom."""
        who = (
            f"broker {broker}"
            if broker is not None
            else "a broker"
            if other_than is None
            else f"not broker {other_than}"
        )
        place = TopicPartition(topic, partition)

        async def look() -> BrokerId | None:
            told = await watched_replica(self._ask, place)
            return None if told is None else told.leader_id

        found = await self._until(
            look,
            lambda seen: seen is not None and seen != other_than and broker in {None, seen},
            wanted=f"{who} to lead {place}",
            timeout_s=timeout_s,
            shown=lambda seen: "nobody leads" if seen is None else str(seen),
        )
        if found is None:
            raise ClusterFailed(f"{topic}-{partition} has no leader")
        return found

    async def wait_for_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        brokers: Collection[BrokerId] | None = None,
        size: int | None = None,
        timeout_s: float = WAIT_S,
    ) -> list[BrokerId]:
        """Wait until just these replicas are in sync, or so many, or else all that are assigned; returns them."""
        place = TopicPartition(topic, partition)

        async def look() -> tuple[list[BrokerId], int]:
            told = await watched_replica(self._ask, place)
            return (
                ([], 0) if told is None else (sorted(told.isr), len(told.assignment))
            )  # nobody leads, so nobody knows

        def is_wanted(seen: tuple[list[BrokerId], int]) -> bool:
            isr, assigned_count = seen
            if brokers is not None:
                return set(isr) == set(brokers)
            return bool(isr) and len(isr) == (assigned_count if size is None else size)

        whom = sorted(brokers) if brokers is not None else "all" if size is None else size
        wanted = f"{whom} in sync in {place}"
        return (await self._until(look, is_wanted, wanted=wanted, timeout_s=timeout_s, shown=_shown_isr))[0]

    async def wait_for_group(
        self, group: str, *, members: int | None = None, state: str | None = None, timeout_s: float = WAIT_S
    ) -> None:
        """Wait until a consumer group has so many members, or is in that state (as Kafka calls it), or both; else until it is stable."""
        wanted_state = "Stable" if members is None and state is None else state

        async def look() -> tuple[int, str]:
            found = await described_group(self._ask, group)
            return len(found.members), found.state

        def is_wanted(seen: tuple[int, str]) -> bool:
            count, now = seen
            return members in {None, count} and (wanted_state is None or wanted_state.lower() == now.lower())

        parts = [f"{members} members" if members is not None else "", f"state {wanted_state}" if wanted_state else ""]
        wanted = f"group {group} with {' and '.join(filter(None, parts))}"
        await self._until(look, is_wanted, wanted=wanted, timeout_s=timeout_s, shown=_shown_group)

    async def replicas(self, *, timeout_s: float = WAIT_S) -> str:
        """Every replica of every partition as a table: who leads, how far each is, who is in sync."""
        wanted = "brokers to tell of their replicas"
        return await self._until(lambda: replica_table(self._ask), bool, wanted=wanted, timeout_s=timeout_s)

    @property
    def _ask(self) -> Admin:
        if self._admin is None:
            raise ClusterFailed("the cluster has not been started: use it as a context manager, or call start()")
        return self._admin

    async def _until(
        self,
        look: Callable[[], Awaitable[T]],
        is_wanted: Callable[[T], bool],
        *,
        wanted: str,
        timeout_s: float,
        shown: Callable[[T], str] = str,
    ) -> T:
        __tracebackhide__ = True
        return await until(
            look, is_wanted, wanted=wanted, timeout_s=timeout_s, shown=shown, why_nothing=self._why_no_answer
        )

    async def _answer(self, work: Awaitable[T], *, wanted: str, timeout_s: float) -> T:
        """What is asked once. Raises ClusterFailed, or NotInTime."""
        __tracebackhide__ = True
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError:
            raise NotInTime(f"{wanted}: not within {timeout_s:g} s; last seen: {self._why_no_answer()}") from None
        except ClientError as error:
            raise ClusterFailed(f"{wanted}: {error}") from error

    def _why_no_answer(self) -> str:
        return "nothing" if self._admin is None else self._admin.last_failure

    def _at_work(self) -> list[BrokerId]:
        return [broker for broker in self.broker_ids if self.is_alive(broker)]

    async def _until_together(self) -> None:
        addresses = self._fleet.addresses
        wanted = "all brokers to know each other"
        await self._until(
            lambda: asyncio.to_thread(are_together, addresses),
            bool,
            wanted=wanted,
            timeout_s=self._timeout_s,
            shown=lambda _: "not all do",
        )

    async def _create(self, topics: Mapping[str, Topic], timeout_s: float) -> None:
        if not topics:
            return
        wanted = [
            NewTopic(
                name=name,
                partition_count=topic.partitions,
                replication_factor=-1 if topic.replicas is None else topic.replicas,
                configs={setting: _text(value) for setting, value in topic.config.items()},
            )
            for name, topic in topics.items()
        ]
        what = f"topics {', '.join(map(repr, topics))} to be created"
        results = await self._answer(self._ask.create_topics(wanted), wanted=what, timeout_s=timeout_s)
        for result in results:
            if not result.is_ok:
                raise ClusterFailed(f"topic {result.name!r} cannot be created: {result.code.name}: {result.message}")

    async def _no_such_partition(self, topic: str, partition: int) -> str | None:
        """A producer would wait for it to be made; a test has mistaken itself. Where nobody tells at once, the producer shall find out."""
        try:
            async with asyncio.timeout(_GLANCE_S):
                known = (await self._ask.describe_topics([topic]))[topic]
        except (TimeoutError, ClientError):
            return None
        if isinstance(known, ErrorCode) or partition < len(known.partitions):
            return None
        return no_partition(topic, partition, len(known.partitions))

    async def _records(self, topic: str, isolation_level: str) -> list[ConsumedRecord]:
        found: list[ConsumedRecord] = []
        settings = {"isolation.level": isolation_level, "auto.offset.reset": "earliest"}
        described = (await self._ask.describe_topics([topic]))[topic]
        if isinstance(described, ErrorCode):
            raise ClusterFailed(f"topic {topic!r} cannot be read: {described.name}")
        places = [TopicPartition(topic, each.index) for each in described.partitions]
        async with Consumer(self.bootstrap_servers, settings) as consumer:
            ends = await consumer.end_offsets(places)
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            while [place for place in places if await consumer.position(place) < ends[place]]:
                found += await consumer.poll(timeout_ms=_POLL_MS)
        return sorted(found, key=lambda record: (record.topic_partition, record.offset))


def _as_topics(topics: Topics) -> dict[str, Topic]:
    if isinstance(topics, str):
        return {topics: Topic()}
    if not isinstance(topics, Mapping):
        return {name: Topic() for name in topics}
    return {name: topic if isinstance(topic, Topic) else Topic(partitions=topic) for name, topic in topics.items()}


def _shown_isr(seen: tuple[list[BrokerId], int]) -> str:
    isr, assigned_count = seen
    return f"{isr} of {assigned_count} replicas" if isr else "nobody leads"


def _shown_group(seen: tuple[int, str]) -> str:
    return f"{seen[0]} members, state {seen[1]}"


def _text(value: str | float) -> str:  # a bool is an int to the type checker, and true or false to Kafka
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value
