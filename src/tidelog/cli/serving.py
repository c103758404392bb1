"""A broker in this process: the real runtime, the event loop, the signals, and a bound on how long goodbye may take."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tidelog.broker import Broker
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.forked import STOP_WITH_EVERYBODY
from tidelog.cli.lock_holder import lock_holder
from tidelog.cli.loops import loop_factory
from tidelog.cli.plan import Plan
from tidelog.cli.port_holder import port_holder
from tidelog.cli.process_log import configure_logging
from tidelog.cli.registry import open_registry, registry_path
from tidelog.cli.reserve import keep_reserves
from tidelog.config import BrokerConfig, ConfigError, without_effect
from tidelog.config.replication import LEADER_EPOCH
from tidelog.controller import MalformedNode
from tidelog.controller.service import BrokerIdTaken
from tidelog.registry import RegistryUnavailable
from tidelog.runtime import Address, NetworkFailure, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.runtime.real import RealDisk, real_runtime
from tidelog.runtime.watchdog import watch_loop
from tidelog.storage import WrongDirectory
from tidelog.storage.names import LOCK
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare

STOP_WITHIN_S: Final = 2.7  # three seconds are promised; the rest is for the interpreter
_THREAD_TURN_S: Final = 0.0005
_OF_PORTS: Final = (os.strerror(errno.EADDRINUSE), os.strerror(errno.EACCES))

logger = logging.getLogger(__name__)

_WORLD: Final = (
    NetworkFailure,
    StorageFailure,
    WrongDirectory,
    RegistryUnavailable,
    BrokerIdTaken,
    MalformedNode,
)
"""What may keep a broker from serving without being a bug."""


class Ready(NamedTuple):
    """Where a broker that serves is found."""

    bootstrap: str
    metrics: Sequence[str]  # URLs


Announce = Callable[[Ready, Plan], None]


def check_config(plan: Plan) -> BrokerConfig:
    """The settings as a broker reads them. Raises WrongUsage."""
    try:
        return BrokerConfig.from_properties(plan.properties)
    except ConfigError as error:
        raise WrongUsage(str(error)) from None


def serve(plan: Plan, *, announce: Announce, is_alone: bool = True) -> int:
    """Run the planned broker until a signal, and return the exit code. One that is not alone leaves Ctrl-C to its parent."""
    config = check_config(plan)
    _make_directories(plan, config)
    configure_logging(plan.log_file, log_format=plan.log_format)
    _log_settings(plan, config)
    _raise_file_limit()
    prepare([ApiKey.API_VERSIONS])
    signals = (signal.SIGINT, signal.SIGTERM) if is_alone else (signal.SIGTERM, STOP_WITH_EVERYBODY)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(_serve(config, plan, announce, signals))
        except _WORLD as failure:
            raise _explained(failure, plan) from failure
        except BaseExceptionGroup as group:
            causes = _causes(group)
            if not all(isinstance(cause, _WORLD) for cause in causes):
                raise
            raise _explained(causes[0], plan) from group
    return EXIT_OK


def _log_settings(plan: Plan, config: BrokerConfig) -> None:
    for name, reason in without_effect(plan.properties).items():
        level = logging.WARNING if plan.warns_of_settings else logging.INFO
        logger.log(level, "setting has no effect", extra=fields(name=name, reason=reason))
    for name, reason in plan.passed_over.items():
        logger.info("environment variable is not a setting", extra=fields(name=name, reason=reason))
    if config.truncation != LEADER_EPOCH:
        logger.warning("LAB ONLY: THIS BROKER LOSES ACKNOWLEDGED RECORDS", extra=fields(truncation=config.truncation))


async def _serve(config: BrokerConfig, plan: Plan, announce: Announce, signals: Sequence[signal.Signals]) -> None:
    # Whenever the loop writes to a file, a thread that decodes or checkpoints may take the interpreter; by default it keeps it for 5 ms.
    sys.setswitchinterval(_THREAD_TURN_S)
    disk = RealDisk()
    runtime = real_runtime(disk)
    keep_reserves(config, disk)
    try:
        broker = Broker(config, runtime, open_registry(config))
        goodbye = _Goodbye(broker.stop)
        for number in signals:
            asyncio.get_running_loop().add_signal_handler(number, goodbye.ask, number)
        watching = asyncio.get_running_loop().create_task(watch_loop(runtime.clock, runtime.metrics))
        try:
            await broker.run(on_ready=lambda addresses: _ready(addresses, broker, plan, announce))
        finally:
            watching.cancel()
    finally:
        runtime.disk.close()


def _ready(addresses: Mapping[str, Address], broker: Broker, plan: Plan, announce: Announce) -> None:
    # What was made so far lives as long as the broker: keep it out of every later collection, whose pauses stop the loop.
    gc.collect()
    gc.freeze()
    bootstrap = ",".join(str(_reachable(address)) for address in addresses.values())
    announce(Ready(bootstrap, broker.metrics_urls), plan)


def _reachable(address: Address) -> Address:
    """An address to connect to: one that listens on every interface is reached here through loopback."""
    loopback = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  # not bound, translated
    return address._replace(host=loopback.get(address.host, address.host))


class _Stop(Protocol):
    def __call__(self, *, with_everybody: bool) -> None: ...


class _Goodbye:
    """Turns the first signal into a clean stop, and impatience or a second signal into an immediate one.

    Where the brokers of a machine are ended as a group, each hears its parent's signal and the group's, in any order: that is no impatience.
    """

    def __init__(self, stop: _Stop) -> None:
        self._stop = stop
        self._heard: list[signal.Signals] = []

    def ask(self, number: signal.Signals) -> None:
        self._heard.append(number)
        if len([each for each in self._heard if each != STOP_WITH_EVERYBODY]) > 1:
            self._leave("stopped at once by a second signal; the next start recovers")
        self._stop(with_everybody=STOP_WITH_EVERYBODY in self._heard)
        if len(self._heard) == 1:
            asyncio.get_running_loop().call_later(
                STOP_WITHIN_S, self._leave, "no clean stop in time; the next start recovers"
            )

    @staticmethod
    def _leave(why: str) -> None:
        logger.error(why)
        logging.shutdown()
        os._exit(EXIT_FAILED)


def _make_directories(plan: Plan, config: BrokerConfig) -> None:
    parents = [] if config.zookeeper_connect else [registry_path(config).parent]
    parents += [] if plan.log_file is None else [plan.log_file.parent]
    for directory in [*map(Path, config.log_dirs), *parents]:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandFailed(f"cannot make {directory}: {error.strerror}") from None


def _raise_file_limit() -> None:
    """A partition holds several files open and a client a socket; the usual soft limit of 1,024 is for smaller programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _causes(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions that are no groups themselves."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _causes(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _explained(failure: BaseException, plan: Plan) -> CommandFailed:
    if isinstance(failure, WrongDirectory):
        holders = [lock_holder(Path(directory.strip()) / LOCK) for directory in plan.data.split(",")]
        held = [f"  it is held by {holder}" for holder in holders if holder is not None]
        return CommandFailed("\n".join([str(failure), *held]))
    if not isinstance(failure, NetworkFailure):
        return CommandFailed(str(failure))
    holder = port_holder(failure.address.port)
    lines = [f"cannot listen on {failure.address}: {failure.reason}"]
    lines += [] if holder is None else [f"  it is held by {holder}"]
    return CommandFailed("\n".join([*lines, f"  {_advice(failure, plan)}"]))


def _advice(failure: NetworkFailure, plan: Plan) -> str:
    """How to listen elsewhere: an address that is not ours is no matter of ports, and metrics have listeners of their own."""
    config = check_config(plan)
    if any((each.host, each.port) == failure.address for each in config.metrics_listeners):
        return "-X metrics.listeners=http://HOST:PORT shows the metrics elsewhere, with port 0 on any that is free"
    return plan.port_advice if any(reason in failure.reason for reason in _OF_PORTS) else plan.host_advice
