"""Verbs of `tidelog fault` that are signals to the process of a broker of this machine, and those that let another broker lead."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.cli.arguments import finish_verb, whole_number
from tidelog.cli.failure import EXIT_OK, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tidelog.cli.port_holder import Holder
    from tidelog.client import Admin, Cluster, ConsumerConfig
    from tidelog.model import BrokerEndpoint, BrokerId, TopicPartition
    from tidelog.runtime import Runtime

T = TypeVar("T")

_OFFSETS_TOPIC: Final = "__consumer_offsets"
_WAIT_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.1
_BROKER_ID: Final[Callable[[str], int]] = whole_number(low=0, high=2**31 - 1, what="a broker id")
_PARTITION: Final[Callable[[str], int]] = whole_number(low=0, high=2**31 - 1, what="a partition")


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str, *, client_id: str) -> None:
    """Declare them."""
    for name, work, what in (
        ("kill", _kill, "kill a broker (SIGKILL); `tidelog up` starts it again, unless it was told --no-restart"),
        ("restart", _restart, "let a broker leave in good order, and wait until `tidelog up` has started it again"),
        ("pause", _pause, "stop a broker's process (SIGSTOP): alive and silent, and after a while taken for dead"),
        ("resume", _resume, "let it go on as if no time had passed (SIGCONT)"),
    ):
        verb = verbs.add_parser(name, help=what, epilog=epilog)
        verb.add_argument("id", type=_BROKER_ID, metavar="ID", help="which broker")
        finish_verb(verb, work, client_id=client_id)
    leading = verbs.add_parser("move-leader", help="let another replica in sync lead a partition", epilog=epilog)
    leading.add_argument("topic", metavar="TOPIC", help="which topic")
    leading.add_argument(
        "partition", type=_PARTITION, nargs="?", default=0, metavar="PARTITION", help="which partition (default: 0)"
    )
    finish_verb(leading, _move_leader, client_id=client_id)
    coordinating = verbs.add_parser(
        "move-coordinator", help="let another broker look after a consumer group", epilog=epilog
    )
    coordinating.add_argument("group", metavar="GROUP", help="which group")
    finish_verb(coordinating, _move_coordinator, client_id=client_id)
    for verb in (leading, coordinating):
        verb.add_argument("--to", type=_BROKER_ID, metavar="ID", help="which broker (default: the next in sync)")


async def _kill(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    broker, holder = await _willing(options.id, _admin(cluster, config, runtime))
    os.kill(holder.pid, signal.SIGKILL)
    sys.stdout.write(f"killed broker {broker.broker_id} ({holder})\n")
    return EXIT_OK


async def _restart(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    admin = _admin(cluster, config, runtime)
    _, holder = await _willing(options.id, admin)
    before = (await admin.broker_epochs())[options.id]
    os.kill(holder.pid, signal.SIGTERM)
    await _in_time(
        _until_started(admin, options.id, before),
        f"broker {options.id} is not back: `tidelog up` starts it again, unless it was told --no-restart",
    )
    sys.stdout.write(f"broker {options.id} was stopped and is back\n")
    return EXIT_OK


async def _pause(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    broker, holder = await _willing(options.id, _admin(cluster, config, runtime))
    os.kill(holder.pid, signal.SIGSTOP)
    sys.stdout.write(f"paused broker {broker.broker_id} ({holder})\n")
    return EXIT_OK


async def _resume(options: argparse.Namespace, _cluster: Cluster, _config: ConsumerConfig, _runtime: Runtime) -> int:
    """Nobody is asked: a broker that was taken for dead is known to none of the others."""
    from tidelog.cli.broker_process import paused_brokers

    match paused_brokers(options.id):
        case []:
            raise CommandFailed(f"no broker {options.id} is paused on this machine")
        case [holder]:
            os.kill(holder.pid, signal.SIGCONT)
            sys.stdout.write(f"broker {options.id} goes on ({holder})\n")
            return EXIT_OK
        case several:
            pids = " or ".join(f"kill -CONT {each.pid}" for each in several)
            raise CommandFailed(f"{len(several)} clusters of this machine have a paused broker {options.id}: {pids}")


async def _move_leader(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.model import TopicPartition

    place = TopicPartition(options.topic, options.partition)
    leader = await _moved(_admin(cluster, config, runtime), place, options.to)
    sys.stdout.write(f"broker {leader} leads {place}\n")
    return EXIT_OK


async def _move_coordinator(
    options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime
) -> int:
    from tidelog.coordinator.placement import partition_of
    from tidelog.model import ErrorCode, TopicPartition

    admin = _admin(cluster, config, runtime)
    # Asking creates the topic where nobody has asked before, so this comes first.
    if isinstance(found := (await admin.groups.find_coordinators([options.group]))[options.group], ErrorCode):
        raise CommandFailed(f"group {options.group!r} has no coordinator: {found.name}")
    topic = (await admin.describe_topics([_OFFSETS_TOPIC]))[_OFFSETS_TOPIC]
    if isinstance(topic, ErrorCode):
        raise CommandFailed(f"{_OFFSETS_TOPIC} cannot be described: {topic.name}")
    place = TopicPartition(_OFFSETS_TOPIC, partition_of(options.group, len(topic.partitions)))
    leader = await _moved(admin, place, options.to)
    sys.stdout.write(f"broker {leader} looks after group {options.group}, by {place}\n")
    return EXIT_OK


async def _moved(admin: Admin, place: TopicPartition, to: BrokerId | None) -> BrokerId:
    from tidelog.client.leader_moves import move_leader

    return await _in_time(move_leader(admin, place, to), f"no other leader of {place}")


async def _willing(broker_id: BrokerId, admin: Admin) -> tuple[BrokerEndpoint, Holder]:
    """A broker of this machine, and its process, if it was started for tests. Raises CommandFailed or RequestRefused."""
    from tidelog.cli.broker_process import endpoint_of, holder_of

    broker = endpoint_of(broker_id, (await admin.describe_cluster()).brokers)
    await admin.faults.standing(broker_id)
    return broker, holder_of(broker)


async def _until_started(admin: Admin, broker_id: BrokerId, before: int) -> None:
    import asyncio

    from tidelog.client.errors import BrokersUnreachable

    while True:
        try:
            if (await admin.broker_epochs()).get(broker_id, before) != before:
                return
        except BrokersUnreachable:  # it was the only one
            pass
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _in_time(work: Coroutine[object, object, T], otherwise: str) -> T:
    import asyncio

    try:
        async with asyncio.timeout(_WAIT_S):
            return await work
    except TimeoutError:
        raise CommandFailed(f"{otherwise} (waited {_WAIT_S:g} s)") from None


def _admin(cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> Admin:
    from tidelog.client import Admin

    return Admin(cluster, config, runtime)
