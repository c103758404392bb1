"""The broker processes of one cluster: started, killed, stopped, started again at the same addresses. For callers that may block."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.cli.cluster_plan import OF_ONE_BROKER, cluster_defaults
from tidelog.cli.forked import STOP_WITH_EVERYBODY
from tidelog.cli.supervisor import described
from tidelog.config import BrokerConfig, ConfigError
from tidelog.model import BrokerId
from tidelog.testing.errors import ClusterFailed, NotInTime
from tidelog.testing.nursery import Child, Nursery
from tidelog.testing.ports import free_ports, give_back

BROKERS_MAX: Final = 9
_LOG_TAIL_BYTES: Final = 16_384
_LOOK_AGAIN_S: Final = 0.001

#: What a test wants that production does not; `config` wins over it.
_BRIEF: Final = {
    # The first group and the first transaction wait for these partitions to be made.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "tidelog.faults.enable": "true",
    "tidelog.reserve.bytes": "0",  # where /tmp is memory, three brokers would take much of it
}


@dataclass(slots=True, kw_only=True)
class _Broker:
    broker_id: BrokerId
    port: int
    child: Child | None = None
    is_paused: bool = False


class Fleet:
    """Brokers numbered from 1. What is done to one of them returns when it has happened, with a bound. Raises ClusterFailed."""

    def __init__(self, broker_count: int, config: Mapping[str, str], *, data: Path | None, timeout_s: float) -> None:
        if not _is_count(broker_count) or not 1 <= broker_count <= BROKERS_MAX:
            raise ClusterFailed(f"a cluster has 1 to {BROKERS_MAX} brokers, not {broker_count!r}")
        for name in sorted(set(config) & set(OF_ONE_BROKER)):
            raise ClusterFailed(f"{name} cannot be the same for all brokers: the cluster chooses it")
        self._config = {**cluster_defaults(broker_count), **_BRIEF, **config}
        try:
            BrokerConfig.from_properties(self._config)
        except ConfigError as error:
            raise ClusterFailed(str(error)) from None
        self._broker_count = broker_count
        self._timeout_s = timeout_s
        self._wanted_data = data
        self._scratch: Path | None = None
        self._nursery: Nursery
        self._brokers: dict[BrokerId, _Broker] = {}

    @property
    def broker_ids(self) -> list[BrokerId]:
        """All that were ever started, dead ones too."""
        return sorted(self._brokers)

    @property
    def addresses(self) -> list[str]:
        """Where clients reach each broker; a broker that is started again is there again."""
        return [f"127.0.0.1:{self._brokers[broker_id].port}" for broker_id in self.broker_ids]

    @property
    def data(self) -> Path:
        """Everything the brokers keep. Raises ClusterFailed before they have been started."""
        place = self._wanted_data or self._scratch
        if place is None:
            raise ClusterFailed("the cluster has not been started: use it as a context manager, or call start()")
        return place

    def log_dir(self, broker_id: BrokerId) -> Path:
        """Where a broker keeps its partitions."""
        return self.data / f"broker-{self._one(broker_id).broker_id}"

    def log_tail(self, broker_id: BrokerId) -> str:
        """The end of what a broker has logged, over all its lives."""
        try:
            with self._log_file(broker_id).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _LOG_TAIL_BYTES))
                return file.read().decode(errors="backslashreplace")
        except OSError:
            return ""

    def is_alive(self, broker_id: BrokerId) -> bool:
        """Whether there is a process; it may be paused."""
        child = self._one(broker_id).child
        return child is not None and child.is_alive

    def pid(self, broker_id: BrokerId) -> int:
        """The process of a broker that lives."""
        pid = self._living(broker_id)[1].pid
        if pid is None:
            raise ClusterFailed(f"broker {broker_id} is only just being started")
        return pid

    def start_all(self) -> None:
        """Start all brokers, and wait until each of them serves."""
        if self._brokers:
            raise ClusterFailed("the cluster was started already")
        self._nursery = Nursery.shared()
        if self._wanted_data is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="tidelog-test-"))
            self._nursery.look_after(self._scratch)
        try:
            ports = free_ports(self._broker_count)
            self._brokers = {number: _Broker(broker_id=number, port=port) for number, port in enumerate(ports, 1)}
            for broker in self._brokers.values():
                self._launch(broker)
            for broker in self._brokers.values():
                self._wait_until_ready(broker)
        except BaseException:
            self.close()
            raise

    def start(self, broker_id: BrokerId) -> None:
        """Start a broker that was killed or stopped, with its data and its address."""
        broker = self._one(broker_id)
        if broker.child is not None and broker.child.is_alive:
            raise ClusterFailed(f"broker {broker_id} is running")
        self._launch(broker)
        self._wait_until_ready(broker)

    def restore(self) -> None:
        """Wake whoever is paused, by whomever, and start whoever is dead, all at once."""
        dead = []
        for broker in self._brokers.values():
            if self.is_alive(broker.broker_id):
                self.resume(broker.broker_id)
            else:
                dead.append(broker)
        for broker in dead:
            self._launch(broker)
        for broker in dead:
            self._wait_until_ready(broker)

    def kill(self, broker_id: BrokerId) -> None:
        """SIGKILL: gone at once. What it had told the operating system to write stays."""
        self._end(broker_id, signal.SIGKILL)

    def stop(self, broker_id: BrokerId) -> None:
        """SIGTERM: it hands over what it leads, and leaves."""
        self._end(broker_id, signal.SIGTERM)

    def pause(self, broker_id: BrokerId) -> None:
        """SIGSTOP: alive, and silent, until `resume`: what others take for dead, and what does not know it."""
        broker, child = self._living(broker_id)
        self._nursery.signal(child, signal.SIGSTOP)
        broker.is_paused = True
        self._wait_until_it(broker, is_stopped=True)

    def resume(self, broker_id: BrokerId) -> None:
        """SIGCONT: on with what it was doing, as if no time had passed."""
        broker, child = self._living(broker_id)
        self._nursery.signal(child, signal.SIGCONT)
        broker.is_paused = False
        self._wait_until_it(broker, is_stopped=False)

    def close(self) -> None:
        """End all brokers: at once where nobody wants their data, cleanly where it is kept. Harmless when done twice."""
        living = [broker for broker in self._brokers.values() if self.is_alive(broker.broker_id)]
        goodbye = signal.SIGKILL if self._scratch else STOP_WITH_EVERYBODY
        try:
            for broker in living:
                child = self._living(broker.broker_id)[1]
                self._nursery.signal(child, goodbye)
                self._nursery.signal(child, signal.SIGCONT)  # one that is paused could not even leave
            for broker in living:
                self._wait_until_ended(broker)
        finally:
            give_back([broker.port for broker in self._brokers.values()])
            self._brokers = {}
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
                self._nursery.forget(self._scratch)
                self._scratch = None

    def _launch(self, broker: _Broker) -> None:
        own = {
            "node.id": str(broker.broker_id),
            "log.dirs": str(self.log_dir(broker.broker_id)),
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port}",
            "tidelog.registry.path": str(self.data / "registry.sqlite"),
        }
        broker.is_paused = False
        broker.child = self._nursery.start(
            self._nursery.new_key(),
            name=f"tidelog-{broker.broker_id}",
            properties={**self._config, **own},
            log=self._log_file(broker.broker_id),
        )

    def _wait_until_ready(self, broker: _Broker) -> None:
        child = self._living(broker.broker_id, or_dead=True)[1]
        self._nursery.wait(
            child,
            lambda child: child.address is not None or not child.is_alive,
            timeout_s=self._timeout_s,
            else_say=f"broker {broker.broker_id} does not serve yet",
        )
        if child.code is not None:
            said = "\n".join(child.last_words) or self.log_tail(broker.broker_id)
            raise ClusterFailed(f"broker {broker.broker_id} {described(child.code)} before it served\n{said}".rstrip())

    def _end(self, broker_id: BrokerId, number: signal.Signals) -> None:
        broker, child = self._living(broker_id)
        if broker.is_paused:
            self._nursery.signal(child, signal.SIGCONT)
        self._nursery.signal(child, number)
        self._wait_until_ended(broker)

    def _wait_until_ended(self, broker: _Broker) -> None:
        self._nursery.wait(
            self._living(broker.broker_id, or_dead=True)[1],
            lambda child: not child.is_alive,
            timeout_s=self._timeout_s,
            else_say=f"broker {broker.broker_id} is still there",
        )

    def _wait_until_it(self, broker: _Broker, *, is_stopped: bool) -> None:
        """The signal is sent by somebody else, in his own time: a test that went on at once would be answered by one that it had paused."""
        pause = threading.Event()  # never set
        for _ in range(int(self._timeout_s / _LOOK_AGAIN_S)):
            child = self._living(broker.broker_id, or_dead=True)[1]
            if not child.is_alive or child.pid is None or _is_stopped(child.pid) == is_stopped:
                return
            pause.wait(_LOOK_AGAIN_S)
        raise NotInTime(f"broker {broker.broker_id} is not {'paused' if is_stopped else 'at work'} yet")

    def _log_file(self, broker_id: BrokerId) -> Path:
        return self.data / "logs" / f"broker-{broker_id}.log"

    def _one(self, broker_id: BrokerId) -> _Broker:
        if (broker := self._brokers.get(broker_id)) is None:
            there = ", ".join(map(str, self.broker_ids)) or "none yet: it has not been started"
            raise ClusterFailed(f"there is no broker {broker_id!r}; of this cluster there are {there}")
        return broker

    def _living(self, broker_id: BrokerId, *, or_dead: bool = False) -> tuple[_Broker, Child]:
        broker = self._one(broker_id)
        if broker.child is None or not (broker.child.is_alive or or_dead):
            raise ClusterFailed(f"broker {broker_id} is not running; start_broker({broker_id}) starts it again")
        return broker, broker.child


def _is_count(given: object) -> bool:
    """Tests have no type checker as a rule."""
    return isinstance(given, int) and not isinstance(given, bool)


def _is_stopped(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False  # It has died, which is noticed elsewhere.
    return state in {b"T", b"t"}
