"""Let brokers fail on purpose, to see how a program takes it: cut links, full disks, errors and delays.

Only brokers that were started for tests obey: `tidelog up --brokers 3 -X tidelog.faults.enable=true`. A broker that is started again has no
faults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, finish_verb, whole_number
from tidelog.cli.failure import EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.fault_processes import add_verbs
from tidelog.cli.output import OutputFormat, Row, shown, write_rows

if TYPE_CHECKING:
    from tidelog.client import Cluster, ConsumerConfig
    from tidelog.model import BrokerId
    from tidelog.runtime import Runtime
    from tidelog.wire.messages.inject_faults import Fault

CLIENTS: Final = "clients"
COLUMNS: Final = ("broker", "fault")
_CLIENT_ID: Final = "tidelog-faults"  # that of tidelog.client.admin_faults, which would cost `--help` an import

_EXAMPLES: Final = """\
examples:
  tidelog fault cut 1 2                               nothing passes between brokers 1 and 2
  tidelog fault cut 1 clients                         clients wait for broker 1 in vain; the others still reach it
  tidelog fault mend 1                                everything passes again at broker 1
  tidelog fault answer Produce NOT_LEADER_OR_FOLLOWER --times 3
  tidelog fault answer Fetch KAFKA_STORAGE_ERROR --times 1 --of-brokers
  tidelog fault delay Fetch 500 --broker 2            every Fetch of clients to broker 2 half a second late
  tidelog fault fill-disk 2                           no room to write
  tidelog fault kill 2                                gone at once; restart 2 is the polite way
  tidelog fault pause 2                               alive and silent, until `tidelog fault resume 2`
  tidelog fault move-leader orders 0 --to 3           another replica in sync leads; move-coordinator GROUP likewise
  tidelog fault list                                  what goes wrong now
  tidelog fault end                                   nothing goes wrong any more
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog fault` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, work, what in (
        ("cut", _cut, "let nothing pass between two brokers, or a broker and its clients"),
        ("mend", _mend, "let everything pass again: on one link, on all of one broker, or on all"),
    ):
        verb = verbs.add_parser(name, help=what, epilog=_EXAMPLES)
        verb.add_argument("ends", nargs=2 if name == "cut" else "*", metavar="ID", help="a broker's id, or `clients`")
        finish_verb(verb, work, client_id=_CLIENT_ID)
    for name, work, what in (
        ("fill-disk", _fill_disk, "let a broker find no room to write"),
        ("free-disk", _free_disk, "let it find room again"),
    ):
        verb = verbs.add_parser(name, help=what, epilog=_EXAMPLES)
        verb.add_argument("id", type=_BROKER_ID, metavar="ID", help="which broker")
        finish_verb(verb, work, client_id=_CLIENT_ID)
    add_verbs(verbs, _EXAMPLES, client_id=_CLIENT_ID)
    answering = verbs.add_parser("answer", help="answer requests of one API with an error", epilog=_EXAMPLES)
    answering.add_argument("api", metavar="API", help="as Kafka calls it: Produce, Fetch, OffsetCommit")
    answering.add_argument("error", metavar="ERROR", help="as Kafka calls it: NOT_LEADER_OR_FOLLOWER")
    _add_scope(answering, "how many times (default: 1; 0: until it is ended)", default=1)
    finish_verb(answering, _answer, client_id=_CLIENT_ID)
    delaying = verbs.add_parser("delay", help="answer requests of one API late", epilog=_EXAMPLES)
    delaying.add_argument("api", metavar="API", help="as Kafka calls it: Produce, Fetch, OffsetCommit")
    delaying.add_argument(
        "ms", type=whole_number(low=1, high=600_000, what="a number of milliseconds"), metavar="MS", help="how late"
    )
    _add_scope(delaying, "how many times (default: until it is ended)", default=0)
    finish_verb(delaying, _delay, client_id=_CLIENT_ID)
    listing = verbs.add_parser("list", help="show what goes wrong now", epilog=_EXAMPLES)
    add_format_argument(listing)
    finish_verb(listing, _list, client_id=_CLIENT_ID)
    ending = verbs.add_parser("end", help="let nothing go wrong any more", epilog=_EXAMPLES)
    finish_verb(ending, _end, client_id=_CLIENT_ID)


_BROKER_ID: Final[Callable[[str], int]] = whole_number(low=0, high=2**31 - 1, what="a broker id")


def _add_scope(parser: argparse.ArgumentParser, times: str, *, default: int) -> None:
    parser.add_argument(
        "--times", type=whole_number(low=0, high=1_000_000, what="a number of times"), default=default, metavar="N",
        help=times,
    )  # fmt: skip
    parser.add_argument(
        "--broker",
        type=_BROKER_ID,
        action="append",
        metavar="ID",
        help="on which broker; may be repeated (default: all)",
    )
    parser.add_argument(
        "--of-brokers", action="store_true", help="requests of other brokers, rather than those of clients"
    )


async def _cut(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin

    admin = Admin(cluster, config, runtime).faults
    for broker, fault in await _told(options.ends, cluster):
        await admin.begin(broker, fault)
    return EXIT_OK


async def _mend(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.wire.messages.inject_faults import FaultKind

    admin = Admin(cluster, config, runtime).faults
    if len(options.ends) > 1:
        for broker, fault in await _told(options.ends, cluster):
            await admin.end(broker, fault)
        return EXIT_OK
    is_found = False
    wanted = [_broker_id(each) for each in options.ends]
    for broker in await _brokers(None, cluster):
        cuts = [
            fault
            for fault in await admin.standing(broker)
            if fault.kind == FaultKind.CUT and (not wanted or {broker, fault.peer_id} & {*wanted})
        ]
        if cuts:
            await admin.end(broker, *cuts)
            is_found = True  # be it as the other end of a link, by one that is dead now
    if not is_found:
        await _brokers(wanted, cluster)
    return EXIT_OK


async def _fill_disk(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.client.admin_faults import full_disk

    (broker,) = await _brokers([options.id], cluster)
    await Admin(cluster, config, runtime).faults.begin(broker, full_disk())
    return EXIT_OK


async def _free_disk(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.client.admin_faults import full_disk

    (broker,) = await _brokers([options.id], cluster)
    await Admin(cluster, config, runtime).faults.end(broker, full_disk())
    return EXIT_OK


async def _answer(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client.admin_faults import answer

    times = options.times or None
    return await _begin(
        options, (cluster, config, runtime),
        lambda: answer(options.api, options.error, times=times, of_brokers=options.of_brokers),
    )  # fmt: skip


async def _delay(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client.admin_faults import delay

    times = options.times or None
    return await _begin(
        options, (cluster, config, runtime),
        lambda: delay(options.api, options.ms, times=times, of_brokers=options.of_brokers),
    )  # fmt: skip


async def _begin(
    options: argparse.Namespace, connected: tuple[Cluster, ConsumerConfig, Runtime], make: Callable[[], Fault]
) -> int:
    from tidelog.client import Admin

    try:
        fault = make()
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    admin = Admin(*connected).faults
    for broker in await _brokers(options.broker, connected[0]):
        await admin.begin(broker, fault)
    return EXIT_OK


async def _list(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.client.admin_faults import described

    admin = Admin(cluster, config, runtime).faults
    rows: list[Row] = [
        {"broker": broker, "fault": described(fault)}
        for broker in await _brokers(None, cluster)
        for fault in await admin.standing(broker)
    ]
    write_rows(sys.stdout, OutputFormat(options.format), COLUMNS, rows)
    return EXIT_OK


async def _end(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin

    del options
    admin = Admin(cluster, config, runtime).faults
    for broker in await _brokers(None, cluster):
        await admin.end(broker)
    return EXIT_OK


def _link(ends: Sequence[str]) -> list[tuple[BrokerId, Fault]]:
    """What each end of a link is told. Raises WrongUsage."""
    from tidelog.client.admin_faults import cut

    if len(ends) != 2 or ends[0] == ends[1] or all(end == CLIENTS for end in ends):
        raise WrongUsage(f"a link has two ends: two brokers, or a broker and `{CLIENTS}`")
    first, second = [None if end == CLIENTS else _broker_id(end) for end in ends]
    return [(near, cut(far)) for near, far in ((first, second), (second, first)) if near is not None]


def _broker_id(text: str) -> BrokerId:
    try:
        return _BROKER_ID(text)
    except argparse.ArgumentTypeError as error:
        raise WrongUsage(str(error)) from None


async def _told(ends: Sequence[str], cluster: Cluster) -> list[tuple[BrokerId, Fault]]:
    link = _link(ends)
    await _brokers([broker for broker, _ in link], cluster)
    return link


async def _brokers(wanted: Sequence[BrokerId] | None, cluster: Cluster) -> list[BrokerId]:
    """Those that were named, or all. Raises CommandFailed for one that is not there."""
    await cluster.refresh_in_time()
    there = sorted(cluster.metadata.brokers)
    for broker in wanted or ():
        if broker not in there:
            raise CommandFailed(f"broker {broker} is not there; there are {shown(there)}")
    return list(wanted or there)
