"""A clerk of the bank, in a process of its own so that it can be killed: BOOTSTRAP TOPIC TRANSACTIONAL_ID INCARNATION SEED KIND.

Moves money between accounts, a partition each, in transactions of which some are aborted, and says what it does before and after. Every record
names the whole transfer, so that whoever reads one knows what else must be there. Ends when it is fenced, or told to on its input.
"""

from __future__ import annotations

import json
import select
import sys
from contextlib import closing
from typing import Final

from tests.compatibility.our_transactions import OurOldTransactions, OurTransactions
from tests.compatibility.transactional_client import Aborted, Fenced, Make, TransactionalClient
from tests.compatibility.transactional_clients import ConfluentTransactions
from tidelog.simulation.randomness import SimulatedRandomness

ACCOUNTS: Final = 6
KINDS: Final[dict[str, Make]] = {
    "librdkafka": ConfluentTransactions,
    "ours": OurTransactions,
    "ours-of-old": OurOldTransactions,
}
_TIMEOUT_MS: Final = 6_000
_ABORTED_ONE_IN: Final = 5


def main() -> int:
    """Work until it is over; returns the exit code."""
    bootstrap, topic, transactional_id, incarnation, seed, kind = sys.argv[1:]
    chance = SimulatedRandomness(seed).stream(f"{transactional_id} {incarnation}")
    number = 0
    try:
        with closing(KINDS[kind](bootstrap, transactional_id, timeout_ms=_TIMEOUT_MS)) as client:
            while not _is_told_to_stop():
                _transfer(client, topic, f"{transactional_id}.{incarnation}.{number}", chance)
                number += 1
    except (Fenced, Aborted) as reason:
        _say("fenced", str(reason))
        return 3
    _say("stopped")
    return 0


def _transfer(client: TransactionalClient, topic: str, name: str, chance: SimulatedRandomness) -> None:
    waiting = list(range(ACCOUNTS))
    accounts = [waiting.pop(chance.below(len(waiting))) for _ in range(2 + chance.below(3))]
    amounts = [1 + chance.below(99) for _ in accounts[1:]]
    moves = dict(zip(accounts, [-sum(amounts), *amounts], strict=True))
    is_aborted = chance.below(_ABORTED_ONE_IN) == 0
    _say("abort" if is_aborted else "commit", name)
    try:
        client.begin()
        for account in moves:
            told = {"transfer": name, "account": account, "moves": moves, "is_aborted": is_aborted}
            client.send(topic, account, json.dumps(told).encode())
        if is_aborted:
            client.flush()
            client.abort()
        else:
            client.commit()
    except Aborted:
        client.abort()
        _say("failed", name)
    else:
        _say("done", name)


def _is_told_to_stop() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
