"""`tidelog transactions abort-prepared`: abort what programs have prepared and nobody will ever decide, such as a query that is given up."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import finish_verb
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.transactions_ending import agrees

if TYPE_CHECKING:
    from tidelog.client import Admin, AdoptedTransaction, Cluster, ConsumerConfig, TransactionDescription
    from tidelog.runtime import Runtime

_FOR_EVER_MS: Final = 2**31 - 1  # the timeout by which brokers tell transactions of two phases from others
_NAMED_MAX: Final = 10


def add_abort_prepared(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog transactions abort-prepared`."""
    parser.description = (
        "Abort the open transactions of two phases (KIP-939) whose ids begin with a prefix, whoever holds them. A query of Spark that writes"
        " with commit.mode=2pc has those that begin with its sink id and a hyphen. They wait for its driver for ever, and who reads"
        " committed records waits for them. If the query can be started once more, do that instead: it ends them itself, and commits"
        " what it had decided, which this would abort."
    )
    parser.add_argument(
        "--prefix", required=True, metavar="PREFIX", help="how the transactional ids begin, as in orders-"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask first (nobody is asked without a terminal)"
    )
    finish_verb(parser, _abort_prepared)


async def _abort_prepared(
    options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime
) -> int:
    from tidelog.client import Admin, TransactionKeeper, TransactionRefused, UnsupportedApi

    if not options.prefix:
        raise WrongUsage("--prefix must not be empty: it would stand for every transactional id there is")
    found = await _prepared(Admin(cluster, config, runtime), options.prefix)
    if not found:
        sys.stderr.write(f"tidelog transactions: nothing is prepared whose id begins with {options.prefix}\n")
        return EXIT_OK
    if not (options.yes or await agrees(f"abort {_in_words(found)}, and fence their producers?")):
        raise CommandFailed("nothing was aborted")
    keeper = TransactionKeeper(cluster, config, runtime)
    try:
        hands = [each for each in (await keeper.adopt(found)).values() if each is not None]
        lost = {each.transactional_id for each in await keeper.end(hands, is_committed=False)}
    except (TransactionRefused, UnsupportedApi) as error:
        raise CommandFailed(str(error)) from None
    return _tell(hands, lost)


async def _prepared(admin: Admin, prefix: str) -> dict[str, TransactionDescription]:
    """What is open under such ids and waits for ever."""
    from tidelog.model import ErrorCode

    listed = await admin.transactions.list(states=["Ongoing"])
    names = [row.transactional_id for row in listed if row.transactional_id.startswith(prefix)]
    described = await admin.transactions.describe(names)
    return {
        name: one
        for name, one in described.items()
        if not isinstance(one, ErrorCode) and one.state == "Ongoing" and one.timeout_ms == _FOR_EVER_MS
    }


def _in_words(found: dict[str, TransactionDescription]) -> str:
    named = ", ".join([*list(found)[:_NAMED_MAX], *(["..."] if len(found) > _NAMED_MAX else [])])
    held = len({partition for one in found.values() for partition in one.partitions})
    return f"{len(found)} transaction(s) in {held} partition(s), of {named}"


def _tell(hands: list[AdoptedTransaction], lost: set[str]) -> int:
    for name in (one.prepared.transactional_id for one in hands):
        if name in lost:
            sys.stderr.write(f"tidelog transactions: {name}: somebody else has just taken it over, and will end it\n")
        else:
            sys.stdout.write(f"aborted the transaction of {name}\n")
    return EXIT_FAILED if lost else EXIT_OK
