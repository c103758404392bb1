"""The way to the brokers: connections that are opened when needed, and metadata that is kept fresh by one task.

Requests travel in lanes, each with a connection of its own per broker, because a broker answers a connection's requests one after the
other: a fetch that waits for data must not delay the question who leads a partition.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Final, Protocol, TypeVar

from tidelog.client.config import IN_FLIGHT_MAX_IDEMPOTENT, ClientConfig
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.client.errors import (
    BrokersUnreachable,
    ClientClosed,
    ClientError,
    ConnectionLost,
    TopicUnavailable,
    UnsupportedApi,
)
from tidelog.client.hedge import first_answer
from tidelog.client.metadata import Leader, MetadataCache, TopicMetadata
from tidelog.client.scope import TaskScope
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Address, Clock, Network, Randomness
from tidelog.wire.api import Request, Response
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

R = TypeVar("R", bound=Response)

_EAGER_REFRESHES: Final = 20
"""So many answers without news come at the pace of the first retry, since a new leader is elected soon or not at all."""

SILENCE_MS: Final = 3_000.0
"""An answer that takes longer may never come: somebody else is asked how the cluster is, and whether that broker is still of it."""

HOPELESS_TOPIC: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Errors of a topic that asking again does not cure."""


class ClientRuntime(Protocol):
    """What a client needs of the world; any `Runtime` has it."""

    @property
    def clock(self) -> Clock:
        """Time."""
        ...

    @property
    def network(self) -> Network:
        """Connections."""
        ...

    @property
    def randomness(self) -> Randomness:
        """Jitter and spreading."""
        ...


class Lane(enum.Enum):
    """Which of the connections to a broker a request takes."""

    CONTROL = "control"
    PRODUCE = "produce"
    FETCH = "fetch"
    GROUP = "group"  # a coordinator parks joins, and nothing may have to wait behind one


class _Link:
    """One lane to one address: the connection, if it is open, and how eagerly to reopen it."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening = asyncio.Lock()
        self.failures = 0
        self.not_before_ms = 0.0

    @property
    def is_open(self) -> bool:
        return self.connection is not None and not self.connection.is_lost

    @property
    def is_silent(self) -> bool:
        """Whether a request has been waiting for its answer for suspiciously long."""
        return self.connection is not None and self.connection.waiting_ms >= SILENCE_MS

    @property
    def was_silent(self) -> bool:
        """Whether the last connection was given up for that."""
        return self.connection is not None and self.connection.has_timed_out


class Cluster:
    """A client's view of the cluster; use as `async with`. Shared by any number of producers, consumers and admins.

    `creates_topics` lets brokers create topics we ask about, where they are configured to; `in_flight_max` bounds the unanswered
    requests of every connection.
    """

    def __init__(
        self,
        config: ClientConfig,
        runtime: ClientRuntime,
        *,
        creates_topics: bool = False,
        in_flight_max: int = IN_FLIGHT_MAX_IDEMPOTENT,
    ) -> None:
        self.metadata = MetadataCache()
        self._config = config
        self._runtime = runtime
        self._creates_topics = creates_topics
        self._limits = ConnectionLimits(
            client_id=config.client_id,
            setup_timeout_ms=config.socket_connection_setup_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
            in_flight_max=in_flight_max,
            receive_bytes_max=config.receive_message_max_bytes,
        )
        self._links: dict[tuple[Address, Lane], _Link] = {}
        self._met: set[Address] = set()  # addresses that were a broker's at some time
        self._last_used_ms: dict[str, float] = {}
        self._refresh_wanted = asyncio.Event()
        self._refresh_waiters: list[asyncio.Future[None]] = []
        self._last_failure: ClientError | None = None
        self._is_closed = False
        self._scope = TaskScope()

    async def __aenter__(self) -> Cluster:
        await self._scope.open()
        self._scope.spawn(self._keep_metadata_fresh(), name="client metadata")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(timeout_ms=None if kind is None else 0)

    async def close(self, *, timeout_ms: float | None = None) -> None:
        """Close every connection and stop refreshing; whoever waits is told ClientClosed or ConnectionLost.

        Bytes already written get `timeout_ms` (request.timeout.ms) to leave.
        """
        if self._is_closed:
            return
        self._is_closed = True
        waiters, self._refresh_waiters = self._refresh_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(ClientClosed("the cluster client was closed"))
        delay_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.TaskGroup() as group:
                for link in self._links.values():
                    if link.connection is not None:
                        group.create_task(link.connection.finish(timeout_ms=delay_ms))
        finally:
            await self._scope.close()

    async def request(
        self,
        node: BrokerId | None,
        request: Request[R],
        *,
        lane: Lane = Lane.CONTROL,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> R:
        """Ask one broker, or with None whichever answers. Raises ConnectionLost, BrokersUnreachable or UnsupportedApi.

        The version is the newest that both sides speak, unless one is given, as it must be for an API that is not advertised.
        """
        if node is not None:
            connection = await self.connect(node, lane)
            return await connection.request(request, timeout_ms=timeout_ms, version=version)
        failure: ClientError = BrokersUnreachable("no broker is known")
        for address in self._candidates():
            try:
                connection = await self._connect(address, lane)
                return await connection.request(request, timeout_ms=timeout_ms, version=version)
            except ConnectionLost as error:
                failure = error
        raise BrokersUnreachable(f"no broker answered; last: {failure}") from failure

    async def _request_at(self, address: Address, request: Request[R]) -> R:
        return await (await self._connect(address, Lane.CONTROL)).request(request)

    async def connect(self, node: BrokerId, lane: Lane) -> Connection:
        """An open connection to a broker, opened now if need be, though not sooner than its backoff allows.

        Raises ConnectionLost or BrokersUnreachable.
        """
        if self.metadata.updated_ms is None:
            await self._first_metadata()
        return await self._connect(self._address_of(node), lane)

    def is_failing(self, node: BrokerId, lane: Lane) -> bool:
        """Whether the last attempt to connect to a broker failed."""
        endpoint = self.metadata.brokers.get(node)
        link = None if endpoint is None else self._links.get((Address(endpoint.host, endpoint.port), lane))
        return link is not None and link.failures > 0

    def connection(self, node: BrokerId, lane: Lane) -> Connection | None:
        """The connection to a broker, if it is open."""
        endpoint = self.metadata.brokers.get(node)
        link = None if endpoint is None else self._links.get((Address(endpoint.host, endpoint.port), lane))
        return link.connection if link is not None and link.is_open else None

    def track(self, *topics: str) -> None:
        """These topics are in use: their metadata is refreshed until they have not been for metadata.max.idle.ms."""
        now_ms = self._runtime.clock.monotonic_ms()
        for topic in topics:
            self._last_used_ms[topic] = now_ms

    def want_refresh(self, *topics: str) -> None:
        """Something we know seems wrong; ask again soon, without waiting for the answer."""
        self.track(*topics)
        self._refresh_wanted.set()

    async def refresh(self, *topics: str) -> None:
        """Wait for metadata that was asked for after this call; bound it with asyncio.timeout. All waiters share one request."""
        if self._is_closed:
            raise ClientClosed("the cluster client was closed")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refresh_waiters.append(waiter)
        self.want_refresh(*topics)
        await waiter

    async def refresh_in_time(self, *topics: str) -> None:
        """The same with a bound of its own, for one who asks just once: default.api.timeout.ms. Raises BrokersUnreachable."""
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                await self.refresh(*topics)
        except TimeoutError:
            raise self.why_unreachable() from None

    def why_unreachable(self) -> BrokersUnreachable:
        """What to say of a cluster that did not tell of itself in time: what the last attempt to ask it ran into."""
        nothing = "no broker has answered yet" if self.metadata.updated_ms is None else "no answer"
        return BrokersUnreachable(str(self._last_failure or nothing))

    async def topic(self, name: str, *, partition_count_min: int = 1, timeout_ms: float | None = None) -> TopicMetadata:
        """A topic's metadata, waited for if need be. Raises TopicUnavailable or BrokersUnreachable."""
        self.track(name)
        delay_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(delay_ms / 1000):
                while True:
                    found = self.metadata.topic(name)
                    if found is not None and len(found.partitions) >= partition_count_min:
                        return found
                    await self.refresh(name)
                    if self.metadata.error_of(name) in HOPELESS_TOPIC:
                        raise TopicUnavailable(name, self.metadata.error_of(name))
        except TimeoutError:
            raise self._why_unavailable(name, partition_count_min) from None

    async def leader_of(self, topic_partition: TopicPartition, *, timeout_ms: float | None = None) -> Leader:
        """Who leads a partition, waited for if need be. Raises TopicUnavailable or BrokersUnreachable."""
        delay_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await self.topic(topic_partition.topic, partition_count_min=topic_partition.index + 1, timeout_ms=delay_ms)
        try:
            async with asyncio.timeout(delay_ms / 1000):
                while (leader := self.metadata.leader_of(topic_partition)) is None:
                    await self.refresh(topic_partition.topic)
                return leader
        except TimeoutError:
            raise self._why_unavailable(topic_partition.topic) from None

    async def _first_metadata(self) -> None:
        """Others may have told us of a broker before the first metadata did: nobody's address is known until then."""
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                await self.refresh()
        except TimeoutError:
            raise BrokersUnreachable(f"no metadata yet; last: {self._last_failure}") from None

    def _why_unavailable(self, topic: str, partition_count_min: int = 1) -> ClientError:
        if self._last_failure is not None:
            return BrokersUnreachable(f"no metadata of topic {topic!r}: {self._last_failure}")
        known = self.metadata.topic(topic)
        if known is not None and len(known.partitions) < partition_count_min:
            few = f"it has {len(known.partitions)} partitions, and none is {partition_count_min - 1}"
            return TopicUnavailable(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, few)
        return TopicUnavailable(topic, self.metadata.error_of(topic) or ErrorCode.LEADER_NOT_AVAILABLE)

    async def _keep_metadata_fresh(self) -> None:
        failures = stale_answers = 0
        while True:
            await self._until_refresh_is_due()
            self._refresh_wanted.clear()
            waiters, self._refresh_waiters = self._refresh_waiters, []
            is_repeated = self._was_refreshed_lately()
            try:
                is_news = self._on_metadata(await self._ask_metadata())
            except ClientClosed:
                return  # What was written may still be leaving; nobody needs to know the cluster any more.
            except (ConnectionLost, BrokersUnreachable, UnsupportedApi) as error:
                failures += 1
                self._last_failure = error
                self._refresh_waiters = [*waiters, *self._refresh_waiters]
                self._refresh_wanted.set()
            else:
                failures = 0
                stale_answers = stale_answers + 1 if is_repeated and not is_news else 0
                self._last_failure = None
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_result(None)
            # Also after a success: whoever finds the answer wanting asks again, and must not do so in a tight loop.
            tries = max(failures, stale_answers - _EAGER_REFRESHES)
            await asyncio.sleep(self._config.retry_backoff.delay_ms(tries, self._runtime.randomness) / 1000)

    def _was_refreshed_lately(self) -> bool:
        updated_ms = self.metadata.updated_ms
        lately_ms = 2 * self._config.retry_backoff_max_ms
        return updated_ms is not None and self._runtime.clock.monotonic_ms() - updated_ms <= lately_ms

    async def _until_refresh_is_due(self) -> None:
        updated_ms = self.metadata.updated_ms
        due_ms = 0.0 if updated_ms is None else updated_ms + self._config.metadata_max_age_ms
        while (delay_ms := due_ms - self._runtime.clock.monotonic_ms()) > 0:
            try:
                async with asyncio.timeout(min(delay_ms, SILENCE_MS) / 1000):
                    await self._refresh_wanted.wait()
                    return
            except TimeoutError:
                if any(link.is_silent for link in self._links.values()):
                    return

    async def _ask_metadata(self) -> MetadataResponse:
        idle_since_ms = self._runtime.clock.monotonic_ms() - self._config.metadata_max_idle_ms
        self._last_used_ms = {topic: used for topic, used in self._last_used_ms.items() if used >= idle_since_ms}
        self.metadata.retain_topics(self._last_used_ms)
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=topic) for topic in self._last_used_ms),
            allow_auto_topic_creation=self._creates_topics,
        )
        asks = [partial(self._request_at, address, request) for address in self._candidates()]
        response = await first_answer(asks, patience_ms=SILENCE_MS)
        if response.error_code is not ErrorCode.NONE or not response.brokers:
            raise BrokersUnreachable(f"a broker answered Metadata with {response.error_code.name} and no brokers")
        return response

    def _on_metadata(self, response: MetadataResponse) -> bool:
        is_news = self.metadata.update(response, self._runtime.clock.monotonic_ms())
        alive = {Address(broker.host, broker.port) for broker in self.metadata.brokers.values()}
        self._met |= alive
        for key in [key for key, link in self._links.items() if key[0] not in alive and not self._is_needed(*key)]:
            connection = self._links.pop(key).connection
            if connection is not None:
                connection.close("the address is no broker's any more")
        return is_news

    def _is_needed(self, address: Address, lane: Lane) -> bool:
        """Whether somebody still waits at an address that is no broker's. Where it never was, it may be another name of one."""
        link = self._links[address, lane]
        if link.opening.locked():
            return True
        in_flight = 0 if link.connection is None else link.connection.in_flight_count
        return address not in self._met and in_flight > 0

    def _candidates(self) -> list[Address]:
        """Whom to ask what anybody knows: open connections first, least busy, then brokers that did not fail lately, then bootstrap.

        Who leaves a request unanswered on any lane comes last: a stopped process keeps its connections open, and answers nothing.
        """
        known = [Address(broker.host, broker.port) for broker in self.metadata.brokers.values()]
        return [*self._by_promise(known), *self._by_promise(set(self._config.bootstrap_servers) - set(known))]

    def _by_promise(self, addresses: Iterable[Address]) -> list[Address]:
        def promise(address: Address) -> tuple[bool, bool, int, int, float]:
            lanes = [self._links.get((address, lane)) for lane in Lane]
            is_silent = any(link is not None and (link.is_silent or link.was_silent) for link in lanes)
            link = self._links.get((address, Lane.CONTROL)) or _Link()
            busy = link.connection.in_flight_count if link.is_open and link.connection is not None else 0
            return (is_silent, not link.is_open, link.failures, busy, self._runtime.randomness.fraction())

        return sorted(sorted(addresses), key=promise)

    def _address_of(self, node: BrokerId) -> Address:
        endpoint = self.metadata.brokers.get(node)
        if endpoint is None:
            raise BrokersUnreachable(f"broker {node} is not in the cluster's metadata")
        return Address(endpoint.host, endpoint.port)

    async def _connect(self, address: Address, lane: Lane) -> Connection:
        link = self._links.setdefault((address, lane), _Link())
        async with link.opening:
            if link.connection is not None and not link.connection.is_lost:
                return link.connection
            if self._is_closed:
                raise ClientClosed("the cluster client was closed")
            await asyncio.sleep(max(0.0, link.not_before_ms - self._runtime.clock.monotonic_ms()) / 1000)
            try:
                link.connection = await open_connection(self._runtime.network, address, self._limits)
            except ConnectionLost:
                link.failures += 1
                raise
            else:
                link.failures = 0
                if self._is_closed:
                    link.connection.close()
                return link.connection
            finally:
                # Also after a success, so that a broker that accepts and hangs up is not called in a tight loop.
                delay_ms = self._config.reconnect_backoff.delay_ms(link.failures, self._runtime.randomness)
                link.not_before_ms = self._runtime.clock.monotonic_ms() + delay_ms
