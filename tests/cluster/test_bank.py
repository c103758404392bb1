"""Money is moved between partitions by several producers, while they, their coordinators and the leaders are killed; none is lost or made."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cluster.bank import TOPIC, Clerk, Reader, judge
from tests.cluster.bank_teller import ACCOUNTS, KINDS
from tests.cluster.waiting import eventually
from tests.cluster.witness import Witness
from tests.compatibility.processes import TidelogCluster
from tests.compatibility.transaction_facts import transaction_coordinator_of
from tidelog.model import TopicPartition as Place
from tidelog.simulation.randomness import SimulatedRandomness

SETTINGS: Final = {
    "transaction.state.log.num.partitions": "6",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "tidelog.registry.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "2000",
}


class Bank:
    """A cluster, clerks and a reader, and the misfortunes that befall them."""

    def __init__(self, cluster: TidelogCluster, seed: int, stack: ExitStack) -> None:
        self.cluster = cluster
        self.chance = SimulatedRandomness(seed)
        self.witness = Witness({each: f"127.0.0.1:{port}" for each, port in cluster.ports.items()}, TOPIC)
        self.witness.create_topic(ACCOUNTS)
        self.clerks = [Clerk(cluster.bootstrap, f"clerk-{kind}", seed, kind) for kind in KINDS]
        for clerk in self.clerks:
            stack.callback(clerk.stop)
        self.reader = stack.enter_context(Reader(cluster.bootstrap))

    @property
    def misfortunes(self) -> list[Callable[[], None]]:
        """All that may happen."""
        return [
            self.kill_clerk,
            self.kill_coordinator,
            self.kill_leader,
            self.raise_the_dead,
            self.kill_clerk_and_leader,
        ]

    def kill_clerk(self) -> None:
        """SIGKILL in the middle of whatever it does; the next one ends what it left open."""
        clerk = self._any_clerk()
        clerk.process.kill()
        clerk.hire()

    def kill_coordinator(self) -> None:
        """SIGKILL for the broker that coordinates somebody."""
        asked = self.cluster.bootstrap.partition(",")[0]
        clerk = self._any_clerk()
        self._kill(
            eventually(lambda: transaction_coordinator_of(asked, clerk.transactional_id), "somebody coordinates")
        )

    def kill_leader(self) -> None:
        """SIGKILL for the broker that leads some account."""
        place = Place(TOPIC, self.chance.below(ACCOUNTS))
        self._kill(eventually(lambda: self.witness.leaders().get(place), "somebody leads").leader_id)

    def kill_clerk_and_leader(self) -> None:
        """Both at once; the next clerk is hired while the broker is gone."""
        self._any_clerk().process.kill()
        self.kill_leader()

    def raise_the_dead(self) -> None:
        """SIGSTOP, as if it were dead, and SIGCONT when somebody else goes by its id and has gone on."""
        clerk = self._any_clerk()
        zombie = clerk.process
        zombie.process.send_signal(signal.SIGSTOP)
        clerk.hire()
        clerk.goes_on()
        zombie.process.send_signal(signal.SIGCONT)
        eventually(lambda: zombie.process.poll() is not None, "the zombie finds that it is over")
        zombie.stop()

    def go_on(self) -> None:
        """Wait until everybody works again and everything is whole."""
        for clerk in self.clerks:
            clerk.goes_on()
        eventually(self._is_whole, "all replicas are in sync")

    def close(self) -> None:
        """Have everybody stop, and read everything."""
        for clerk in self.clerks:
            clerk.stop()
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "unused", "log_level": 0})
        ends = {
            account: consumer.get_watermark_offsets(TopicPartition(TOPIC, account), timeout=20)[1]
            for account in range(ACCOUNTS)
        }
        consumer.close()
        # Nothing is held back for ever: what a clerk left open is aborted when its time is over.
        eventually(lambda: self.reader.has_read(ends), "everything is stable, and was read")

    def _kill(self, broker_id: int) -> None:
        self.cluster.kill(broker_id)
        for clerk in self.clerks:
            clerk.goes_on()
        self.cluster.restart(broker_id)

    def _any_clerk(self) -> Clerk:
        return self.clerks[self.chance.below(len(self.clerks))]

    def _is_whole(self) -> bool:
        leaders = self.witness.leaders()
        return len(leaders) == ACCOUNTS and all(len(row.isr) == 3 for row in leaders.values())


def run(directory: Path, *, seed: int, seconds: float) -> None:
    """Each misfortune once, in an order of the seed, and again until the time is over."""
    deadline = time.monotonic() + seconds
    with TidelogCluster(directory, SETTINGS) as cluster, ExitStack() as stack:
        bank = Bank(cluster, seed, stack)
        bank.go_on()
        is_first_round = True
        while is_first_round or time.monotonic() < deadline:
            waiting = bank.misfortunes
            while waiting and (is_first_round or time.monotonic() < deadline):
                waiting.pop(bank.chance.below(len(waiting)))()
                bank.go_on()
            is_first_round = False
        bank.close()
        counts = judge(bank.reader.parts, bank.clerks)
    assert counts["commit done"] > 50
    assert counts["abort done"] > 5
    assert sum(clerk.fenced_count for clerk in bank.clerks) > 0, "zombies were fenced"


@pytest.mark.proof
@pytest.mark.timeout(240)
def test_i8_no_money_is_lost_or_made_while_clerks_coordinators_and_leaders_are_killed(tmp_path: Path) -> None:
    run(tmp_path, seed=7, seconds=0)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_i8_no_money_is_lost_or_made_for_a_minute(tmp_path: Path) -> None:
    run(tmp_path, seed=1, seconds=60)
