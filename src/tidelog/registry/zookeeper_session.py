"""A session with ZooKeeper: requests that wait a bounded time for a lost connection to come back, and the end of the session.

A lost connection is no end. Only the servers say that a session has expired, and after that nothing is sent any more.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Sequence
from typing import Any, Final

from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.protocol.serialization import Sync
from kazoo.protocol.states import KeeperState

from tidelog.config.replication import DIGEST
from tidelog.registry.errors import RegistryUnavailable, SessionExpired
from tidelog.registry.protocol import SessionId
from tidelog.registry.zookeeper_client import OneSessionClient, Reply, hand_over, in_daemon
from tidelog.registry.zookeeper_options import Ensemble, ZooKeeperOptions
from tidelog.runtime.logs import fields

IN_FLIGHT_MAX: Final = 128  # kazoo is woken through a socket pair, whose buffer would hold up the loop at about 270
END_WITHIN_S: Final = 2.0

#: What the servers say about a node; the rest is about the connection or the session.
NODE_ERRORS: Final = (
    *(NoNodeError, NodeExistsError, BadVersionError, NotEmptyError),
    *(NoChildrenForEphemeralsError, BadArgumentsError),
)

_WORDS: Final[dict[type[KazooException], str]] = {
    ConnectionLoss: "the connection was lost",
    NoAuthError: "no permission",
    AuthFailedError: "authentication failed",
    SessionClosedRequireSaslError: "authentication failed, or was demanded and not tried",
}
_LASTING: Final = (
    *(
        NoAuthError,
        AuthFailedError,
        SessionClosedRequireSaslError,
        InvalidACLError,
        UnimplementedError,
        MarshallingError,
    ),
)

logger = logging.getLogger(__name__)


class ZooKeeperSession:
    """One session, from its opening to its end. Node errors are raised as kazoo's, everything else as ours."""

    def __init__(
        self, ensemble: Ensemble, *, session_timeout_ms: int, connection_timeout_ms: int, options: ZooKeeperOptions
    ) -> None:
        _check_sasl(ensemble, options)
        self.id: SessionId | None = None
        self._hosts = ensemble.hosts
        self._session_timeout_s = session_timeout_ms / 1000
        self._connection_timeout_s = connection_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._reachable = asyncio.Event()  # connected, or over: in both cases there is no point in waiting
        self._over = asyncio.Event()
        self._why_over = "the session is over"
        self._ending: asyncio.Task[bool] | None = None
        self._client = OneSessionClient(
            ensemble.hosts, session_timeout_ms=session_timeout_ms, options=options, on_state=self._hear
        )

    @property
    def is_over(self) -> bool:
        """Whether the session has ended; true from the moment kazoo's thread learns it."""
        return bool(self._client.one_session.is_over) or self._over.is_set()

    @property
    def client_id(self) -> tuple[SessionId, bytes]:
        """The number and the password of the session: with both, another client can take it over."""
        session_id, password = self._client.client_id
        return int(session_id), bytes(password)

    async def open(self) -> SessionId:
        """Connect and begin. Raises RegistryUnavailable if that takes too long or is refused."""
        self._client.start_async()
        try:
            async with asyncio.timeout(self._connection_timeout_s):
                await self._reachable.wait()
                # Kazoo calls a connection established before it is authenticated; and a server may lose its quorum just now.
                await self.request(Sync("/"))
        except TimeoutError:
            await self.end()
            within = f"no connection within {self._connection_timeout_s * 1000:.0f} ms"
            raise self._unavailable(f"{within} ({self._client.one_session.last_failure})") from None
        except (SessionExpired, RegistryUnavailable) as failure:
            await self.end()
            if (death := self._client.one_session.death) is not None:
                raise self._unavailable(words_of(death), may_pass=not is_lasting(death)) from death
            raise self._unavailable(
                failure.reason, may_pass=isinstance(failure, RegistryUnavailable) and failure.may_pass
            ) from None
        except BaseException:
            await self.end()
            raise
        self.id = self.client_id[0]
        return self.id

    async def request(self, request: object) -> Any:
        """Send one request and wait for its answer. Requests started in order are sent in order."""
        await self._until_reachable()
        async with self._slots:
            self.check_alive()
            future: asyncio.Future[object] = self._loop.create_future()
            self._client.submit(request, Reply(self._loop, future))
            try:
                async with asyncio.timeout(self._session_timeout_s):
                    return await future
            except TimeoutError:
                raise self._unavailable("no answer in time") from None
            except NODE_ERRORS:
                raise
            except ZookeeperError as error:
                raise self._translated(error) from error

    async def requests(self, requests: Sequence[object]) -> list[Any]:
        """Send several without waiting in between. Answers that are node errors are returned, other errors raised."""
        answers = await asyncio.gather(*map(self.request, requests), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, NODE_ERRORS):
                raise answer
        return answers

    async def until_connected(self) -> None:
        """Wait, for as long as the session lives, until there is a connection. Raises SessionExpired."""
        await self._reachable.wait()
        self.check_alive()

    async def ended(self) -> None:
        """Wait until the session is over."""
        await self._over.wait()

    async def end(self) -> None:
        """End the session, and with it its ephemeral nodes; if the servers cannot be told in time, they will notice."""
        self._conclude("the session was ended")
        if self._ending is not None:
            await asyncio.shield(self._ending)

    def _hear(self, state: KeeperState) -> None:
        """In kazoo's thread."""
        hand_over(self._loop, self._turn, state)

    def _turn(self, state: KeeperState) -> None:
        if self._over.is_set():
            return
        session = f"{self.id or 0:#x}"
        if state == KeeperState.CONNECTED:
            logger.info("registry connected", extra=fields(session=session))
            self._reachable.set()
        elif state == KeeperState.CONNECTING:
            logger.warning("registry connection lost", extra=fields(session=session, hosts=self._hosts))
            self._reachable.clear()
        else:
            self._expire("authentication failed" if state == KeeperState.AUTH_FAILED else "the session has expired")

    def _expire(self, why: str) -> None:
        if not self._over.is_set():
            logger.warning("registry session over", extra=fields(session=f"{self.id or 0:#x}", reason=why))
            self._conclude(why)

    def _conclude(self, why: str) -> None:
        if not self._over.is_set():
            self._why_over = why
            self._client.one_session.is_over = True
            self._over.set()
            self._reachable.set()
            self._ending = self._loop.create_task(in_daemon(self._client.end, timeout_s=END_WITHIN_S))

    async def _until_reachable(self) -> None:
        if not self._reachable.is_set():
            try:
                async with asyncio.timeout(self._session_timeout_s / 3):
                    await self._reachable.wait()
            except TimeoutError:
                raise self._unavailable(f"not connected ({self._client.one_session.last_failure})") from None
        self.check_alive()

    def check_alive(self) -> None:
        """Raise SessionExpired if the session is over."""
        if self.is_over:
            self._expire("the session has expired")
            raise SessionExpired("/", self._why_over)

    def _translated(self, error: ZookeeperError) -> Exception:
        if isinstance(error, SessionExpiredError) and not isinstance(error, ConnectionClosedError):
            self._client.one_session.is_over = True
        if isinstance(error, SessionExpiredError) and self.is_over:
            self._expire("the session has expired")
            return SessionExpired("/", self._why_over)
        return self._unavailable(words_of(error), may_pass=not is_lasting(error))

    def _unavailable(self, reason: str, *, may_pass: bool = True) -> RegistryUnavailable:
        return RegistryUnavailable(self._hosts, reason, may_pass=may_pass)


def words_of(error: KazooException) -> str:
    """For an operator."""
    return _WORDS.get(type(error)) or f"{type(error).__name__} {error}".strip()


def is_lasting(error: KazooException) -> bool:
    """Whether asking again would be answered the same."""
    return isinstance(error, _LASTING)


def _check_sasl(ensemble: Ensemble, options: ZooKeeperOptions) -> None:
    if options.mechanism not in (None, DIGEST) and importlib.util.find_spec("puresasl") is None:
        raise RegistryUnavailable(
            ensemble.hosts, f"the mechanism {options.mechanism} needs a library: pip install 'kazoo[sasl]'"
        )
