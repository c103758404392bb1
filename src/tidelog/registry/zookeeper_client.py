"""One kazoo client that lives exactly as long as one session, and hands every answer over from its threads to the loop.

Three things differ from kazoo's own ways. After an expiry kazoo would go on with another session, and a write on its way could end up
there: ours never connects again. An attempt to connect may last a third of a session divided by the members, so that one member behind
a dead link does not cost the session. And the member that was just lost is tried after the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState

from tidelog.config.replication import DIGEST
from tidelog.registry.zookeeper_options import ZooKeeperOptions

_RETRY: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}

# Kazoo tells of every attempt to connect; what an operator needs of that is told by the session, once per change.
_kazoo_logger: Final = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.CRITICAL)


class OneSessionHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threads and sockets, with a say in where it connects to and how long that may take."""

    def __init__(self, *, member_count: int, session_timeout_ms: int) -> None:
        super().__init__()
        self.is_over = False
        self.last_failure = "no member answered"
        self.death: KazooException | None = None  # what ended kazoo's thread, if it did not end by itself
        self._member_count = member_count
        self._attempt_timeout_s = max(0.05, session_timeout_ms / 3_000 / member_count)
        self._member: tuple[str, int] | None = None
        self._lost: tuple[str, int] | None = None

    def on_lost(self) -> None:
        """The connection is gone."""
        self._lost = self._member if self._member_count > 1 else None

    def spawn(self, func: Callable[..., object], *arguments: object, **named: object) -> Any:
        """Called by kazoo for each of its threads; some refusals of servers end them."""

        def run() -> None:
            try:
                func(*arguments, **named)
            except KazooException as error:
                self.death = error

        return super().spawn(run)

    def create_connection(self, address: tuple[str, int], **how: Any) -> Any:
        """Called by kazoo, in its thread, for each attempt."""
        if self.is_over:
            raise ConnectionRefusedError("the session is over")
        if address == self._lost:
            self._lost = None
            raise ConnectionRefusedError("lost a moment ago; the other members come first")
        how["timeout"] = self._attempt_timeout_s
        try:
            connection = super().create_connection(address=address, **how)
        except OSError as error:
            self.last_failure = f"{address[0]}:{address[1]}: {error.strerror or error}"
            raise
        self._member = address
        return connection


class OneSessionClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A client for one session. `on_state` is called in kazoo's thread."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        options: ZooKeeperOptions,
        on_state: Callable[[KeeperState], None],
    ) -> None:
        self.one_session = OneSessionHandler(member_count=hosts.count(",") + 1, session_timeout_ms=session_timeout_ms)
        self._on_state = on_state
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=self.one_session,
            connection_retry=_RETRY,
            command_retry=_RETRY,
            logger=_kazoo_logger,
            **_security(options),
        )
        self.add_listener(self._hear)

    def submit(self, request: object, reply: Reply) -> None:
        """Send a request of kazoo's protocol and have it answered to `reply`. Requests are done in the order of their submission."""
        self._call(request, reply)

    def end(self) -> None:
        """End the session and free everything; blocks, so call it in a thread."""
        with contextlib.suppress(KazooException, OSError):
            self.stop()
            self.close()

    def _hear(self, state: KazooState) -> None:
        if state == KazooState.SUSPENDED:
            self.one_session.on_lost()
        elif state == KazooState.LOST:
            self.one_session.is_over = True
        self._on_state(self.client_state)


class Reply:
    """Where kazoo's connection thread puts an answer; the future gets it on the loop."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[object]) -> None:
        self._loop = loop
        self._future = future

    def set(self, value: object = None) -> None:
        """Answered."""
        hand_over(self._loop, self._settle, value, None)

    def set_exception(self, error: BaseException) -> None:
        """Refused, or lost."""
        hand_over(self._loop, self._settle, None, error)

    def _settle(self, value: object, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)


def hand_over(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    """Have the loop call something soon, from another thread; a loop that is closed no longer cares."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


async def in_daemon(work: Callable[[], None], *, timeout_s: float) -> bool:
    """Do blocking work in a thread that holds up nobody's exit; whether it was done in time."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        try:
            work()
        finally:
            hand_over(loop, done.set)

    threading.Thread(target=run, name="zookeeper-end", daemon=True).start()
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        return False
    return True


def _security(options: ZooKeeperOptions) -> dict[str, object]:
    chosen: dict[str, object] = {}
    if options.is_tls:
        chosen |= {
            "use_ssl": True,
            "ca": options.ca_file,
            "certfile": options.certificate_file,
            # Kazoo wants both; a file may hold the key behind the certificate.
            "keyfile": options.key_file or options.certificate_file,
            "keyfile_password": options.key_password,
            "verify_certs": options.verifies,
            "check_hostname": options.verifies,
        }
    if options.mechanism == DIGEST:
        chosen["auth_data"] = {(DIGEST, f"{options.username}:{options.password}")}
    elif options.mechanism is not None:
        given = {"mechanism": options.mechanism, "username": options.username, "password": options.password}
        chosen["sasl_options"] = {name: value for name, value in given.items() if value is not None}
    return chosen
