"""`tidelog transactions abort` and `commit`: end a transaction from outside."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import finish_verb, whole_number
from tidelog.cli.failure import EXIT_OK, CommandFailed, WrongUsage

if TYPE_CHECKING:
    from tidelog.client import (
        Admin,
        Cluster,
        ConsumerConfig,
        OpenTransaction,
        PreparedTransaction,
        RequestRefused,
        TransactionDescription,
    )
    from tidelog.model import TopicPartition
    from tidelog.runtime import Runtime

_PARTITION: Final = whole_number(low=0, high=2**31 - 1, what="a partition")
_OFFSET: Final = whole_number(low=0, high=2**63 - 1, what="an offset")
_PRODUCER_ID: Final = whole_number(low=0, high=2**63 - 1, what="a producer id")
_PRODUCER_EPOCH: Final = whole_number(low=0, high=2**15 - 1, what="a producer epoch")
_COORDINATOR_EPOCH: Final = whole_number(low=-1, high=2**31 - 1, what="a coordinator epoch")

_ADVICE: Final = {
    "PRODUCER_FENCED": "another producer has taken over, and only its id and epoch end the transaction",
    "INVALID_PRODUCER_EPOCH": "another producer has taken over, and only its id and epoch end the transaction",
    "INVALID_PRODUCER_ID_MAPPING": "this producer is not the one of this transactional id",
    "INVALID_TXN_STATE": "there is no open transaction, or it was decided the other way",
    "CONCURRENT_TRANSACTIONS": "its markers are still being written; ask again",
    "TRANSACTION_COORDINATOR_FENCED": "a newer coordinator has written there",
}


def add_abort(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog transactions abort`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--transactional-id", metavar="ID",
        help="abort what it has open and fence its producer; with a producer's id and epoch, only if it is that one's",
    )  # fmt: skip
    what.add_argument(
        "-t", "--topic", metavar="TOPIC", help="end a transaction there that hangs (find-hanging shows them)"
    )
    parser.add_argument("-p", "--partition", type=_PARTITION, help="in which partition of the topic")
    parser.add_argument("--start-offset", type=_OFFSET, metavar="OFFSET", help="where it began")
    parser.add_argument("--producer-id", type=_PRODUCER_ID, metavar="ID", help="or whose it is, with both epochs")
    parser.add_argument("--producer-epoch", type=_PRODUCER_EPOCH, metavar="EPOCH")
    parser.add_argument("--coordinator-epoch", type=_COORDINATOR_EPOCH, metavar="EPOCH")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask first (nobody is asked without a terminal)"
    )
    finish_verb(parser, _abort)


def add_commit(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog transactions commit`."""
    parser.add_argument("--transactional-id", required=True, metavar="ID", help="whose transaction was prepared")
    parser.add_argument(
        "--producer-id", required=True, type=_PRODUCER_ID, metavar="ID", help="under which producer it is to be ended"
    )
    parser.add_argument(
        "--producer-epoch", required=True, type=_PRODUCER_EPOCH, metavar="EPOCH", help="and which epoch"
    )
    finish_verb(parser, _commit)


async def _commit(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    await _end((cluster, config, runtime), _prepared(options), is_committed=True)
    return EXIT_OK


async def _abort(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.model import TopicPartition

    admin = Admin(cluster, config, runtime)
    if options.transactional_id is None:
        if options.partition is None:
            raise WrongUsage("--topic goes with --partition")
        await _abort_in(admin, TopicPartition(options.topic, options.partition), options)
    elif {options.partition, options.start_offset, options.coordinator_epoch} != {None}:
        raise WrongUsage("--partition, --start-offset and --coordinator-epoch go with --topic")
    elif options.producer_id is None and options.producer_epoch is None:
        await _fence(admin, options.transactional_id, is_confirmed=options.yes)
    else:
        _need(options, "producer_id", "producer_epoch")
        await _end((cluster, config, runtime), _prepared(options), is_committed=False)
    return EXIT_OK


def _prepared(options: argparse.Namespace) -> PreparedTransaction:
    from tidelog.client import PreparedTransaction

    return PreparedTransaction(
        transactional_id=options.transactional_id,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
    )


async def _end(
    connected: tuple[Cluster, ConsumerConfig, Runtime], prepared: PreparedTransaction, *, is_committed: bool
) -> None:
    """Decide a transaction in its producer's name. Raises CommandFailed."""
    from tidelog.client import Admin, RequestRefused
    from tidelog.model import ErrorCode, ProducerIdentity

    admin, name = Admin(*connected), prepared.transactional_id
    pair = ProducerIdentity(prepared.producer_id, prepared.producer_epoch)
    try:
        await admin.transactions.end(name, pair, is_committed=is_committed)
    except RequestRefused as error:
        is_fenced = error.code in {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
        if not (is_fenced and await _is_open_still(admin, prepared)):
            raise _failed(error) from None
        # Somebody has adopted it, and may be dead: in whose name nobody can speak any more. Whoever adopts it anew can end it.
        await _finish(connected, prepared, is_committed=is_committed)
    what = "committed" if is_committed else "aborted"
    sys.stdout.write(f"{what} the transaction of {name}\n")


async def _is_open_still(admin: Admin, prepared: PreparedTransaction) -> bool:
    """Whether this producer wrote what the id has open. It must not be asked by adopting: that fences whoever writes there now."""
    from tidelog.model import ErrorCode, ProducerIdentity

    known = (await admin.transactions.describe([prepared.transactional_id]))[prepared.transactional_id]
    if isinstance(known, ErrorCode) or known.state != "Ongoing":
        return False
    return ProducerIdentity(known.producer_id, known.producer_epoch) == prepared.producer


async def _finish(
    connected: tuple[Cluster, ConsumerConfig, Runtime], prepared: PreparedTransaction, *, is_committed: bool
) -> None:
    """Decide a transaction whoever holds it. Raises CommandFailed."""
    from tidelog.client import TransactionKeeper, TransactionPending, TransactionRefused, UnsupportedApi

    keeper, name = TransactionKeeper(*connected), prepared.transactional_id
    try:
        found = (await keeper.adopt([name]))[name]
        if found is None or found.prepared != prepared:
            raise CommandFailed(f"{name}: the transaction has just been ended by somebody else")
        if await keeper.end([found], is_committed=is_committed):
            raise CommandFailed(f"{name}: somebody else has just taken it over, and will end it")
    except (TransactionPending, TransactionRefused, UnsupportedApi) as error:
        raise CommandFailed(str(error)) from None


async def _fence(admin: Admin, transactional_id: str, *, is_confirmed: bool) -> None:
    """Abort what an id has open by taking over from its producer. Raises CommandFailed."""
    from tidelog.model import ErrorCode

    known = await _open_transaction_of(admin, transactional_id)
    whose = f"its producer (id {known.producer_id}, epoch {known.producer_epoch})"
    if not (is_confirmed or await agrees(f"abort the transaction of {transactional_id}, and fence {whose}?")):
        raise CommandFailed("nothing was aborted")
    taken = (await admin.transactions.fence([transactional_id]))[transactional_id]
    if isinstance(taken, ErrorCode):
        advice = _ADVICE.get(taken.name)
        raise CommandFailed(f"{transactional_id}: {taken.name}" + (f": {advice}" if advice else ""))
    sys.stdout.write(f"aborted the transaction of {transactional_id}; {whose} is fenced\n")


async def _open_transaction_of(admin: Admin, transactional_id: str) -> TransactionDescription:
    """What an id has open and undecided. Raises CommandFailed; also for an id that nobody uses, which fencing would bring to life."""
    from tidelog.model import ErrorCode

    known = (await admin.transactions.describe([transactional_id]))[transactional_id]
    if isinstance(known, ErrorCode):
        raise CommandFailed(f"{transactional_id}: {known.name}")
    if known.state != "Ongoing":
        raise CommandFailed(f"{transactional_id}: there is nothing to abort; its state is {known.state}")
    return known


async def _abort_in(admin: Admin, key: TopicPartition, options: argparse.Namespace) -> None:
    """End a transaction in one partition only. Raises CommandFailed."""
    from tidelog.client import RequestRefused
    from tidelog.model import ProducerIdentity

    if options.start_offset is None:
        _need(options, "producer_id", "producer_epoch", "coordinator_epoch")
        pair = ProducerIdentity(options.producer_id, options.producer_epoch)
        coordinator_epoch = options.coordinator_epoch
    else:
        found = (await _hanging_at(admin, key, options.start_offset)).producer
        pair = ProducerIdentity(found.producer_id, found.producer_epoch)
        coordinator_epoch = found.coordinator_epoch
    try:
        await admin.transactions.abort(key, pair, coordinator_epoch=coordinator_epoch)
    except RequestRefused as error:
        raise _failed(error) from None
    whose = f"producer {pair.producer_id}, epoch {pair.producer_epoch}"
    sys.stdout.write(f"aborted the transaction of {whose} in {key.topic}:{key.index}\n")


async def _hanging_at(admin: Admin, key: TopicPartition, start_offset: int) -> OpenTransaction:
    """The transaction that began there. Raises CommandFailed if there is none, or if it has a coordinator that will end it."""
    from tidelog.model import ErrorCode

    held = (await admin.transactions.holders([key]))[key]
    if isinstance(held, ErrorCode):
        raise CommandFailed(f"{key.topic}:{key.index}: {held.name}")
    found = next((one for one in held.open if one.first_offset == start_offset), None)
    if found is None:
        raise CommandFailed(f"{key.topic}:{key.index}: no open transaction begins at offset {start_offset}")
    if not found.is_hanging and found.transaction is not None:
        name, state = found.transaction.transactional_id, found.transaction.state
        raise CommandFailed(
            f"{key.topic}:{key.index}: this transaction does not hang: its coordinator knows it ({state}), and to abort it in one"
            f" partition only would tear it; say --transactional-id {name}"
        )
    return found


def _need(options: argparse.Namespace, *names: str) -> None:
    missing = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name) is None]
    if missing:
        start = "" if options.topic is None else " (or --start-offset alone)"
        raise WrongUsage(f"which transaction? missing: {', '.join(missing)}{start}")


async def agrees(question: str) -> bool:
    """Ask who sits at a terminal; without one there is nobody to ask, and what was said is meant."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    from tidelog.cli.chunks import chunks

    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = await anext(chunks(sys.stdin.buffer), b"")
    return answer.strip().lower() in {b"y", b"yes"}


def _failed(error: RequestRefused) -> CommandFailed:
    advice = _ADVICE.get(error.code.name)
    return CommandFailed(f"{error}" + (f": {advice}" if advice else ""))
