"""Each workload goes on in a quiet cluster and past the death of a leader, ends when it is told to, and leaves every checker silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.simulation.clusters import is_whole, kills
from tidelog.model import TopicPartition
from tidelog.simulation.checkers import all_checkers, cluster_checkers, end_checkers
from tidelog.simulation.checkers.ending import Ending, ending_of
from tidelog.simulation.checkers.transactions_end import undecided
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.faults.plan import FaultPlan
from tidelog.simulation.transaction_history import Fate
from tidelog.simulation.workloads import (
    SAFE,
    STOP_WITHIN_MS,
    History,
    Workload,
    default_workloads,
    is_promised,
    laggards,
    make_topics,
    prepare,
)
from tidelog.simulation.workloads.readers import Reader
from tidelog.simulation.workloads.sending import Sending
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS, UNCLEAN_PARTITION

WRITERS = ("idempotent-1", "idempotent-2", "retrying", "careless-1", "careless-0")
READERS = ("following reader", "returning reader", "near reader", "tolerant reader")
GROUPS = ("classic", "modern")
TRANSACTIONS = ("ledger", "copies", "auditor")
ADMINISTRATORS = ("topic churn", "reassignments", "elections", "min ISR changes", "record deletions")
WITH_LEDGER = {"copies": ("ledger",), "auditor": ("ledger", "copies")}  # who reads what others write in transactions
BACKGROUND = ("retrying", "careless-1")  # so that readers have something to read, and administrators something to move


class Stage:
    """A cluster under some of the default workloads."""

    def __init__(self, cluster: SimulatedCluster, history: History, names: tuple[str, ...], plan: FaultPlan) -> None:
        self.cluster = cluster
        self.history = history
        workloads = default_workloads(cluster, plan, self.history, cluster.world.randomness.stream("workloads"))
        self.workloads = {each.name: each for each in workloads if each.name in (*BACKGROUND, *names)}
        client = cluster.client
        self._tasks = {name: client.spawn(each.run(client.runtime)) for name, each in self.workloads.items()}

    def until_more_steps(self, name: str, count: int = 2) -> None:
        """The workload has got what it wanted so many times more."""
        workload = self.workloads[name]
        wanted = workload.steps + count
        self.cluster.until(lambda: workload.steps >= wanted, f"{name} goes on", within_ms=60_000)

    def end(self) -> Ending:
        """Stop the writers, let the readers come to the end, and see that nobody was lied to."""
        self.stop([each for each in self.workloads.values() if not each.is_reading])
        for workload in self.workloads.values():
            workload.settle()
        self.cluster.until(
            lambda: all(is_whole(self.cluster, one) for one in SAFE_PARTITIONS), "all is whole", within_ms=60_000
        )
        self.cluster.until(lambda: not list(undecided(self.cluster.snapshot())), "nothing is undecided")
        self.cluster.until(lambda: not self._lagging(), "the readers are at the end")
        self.stop(list(self.workloads.values()))
        ending = ending_of(self.cluster, self.history)
        for checker in end_checkers():
            assert not list(checker.verdict(ending)), checker.name
        return ending

    def _lagging(self) -> list[str]:
        return list(laggards(self.workloads.values(), self.cluster.snapshot()))

    def stop(self, workloads: list[Workload]) -> None:
        """They end in time, and without an error."""
        for workload in workloads:
            workload.stop()
        tasks = [self._tasks[workload.name] for workload in workloads]
        self.cluster.until(lambda: all(task.done() for task in tasks), "all have ended", within_ms=STOP_WITHIN_MS)
        for task in tasks:
            task.result()


@contextmanager
def stage(seed: int, *names: str, brokers: int = 4) -> Iterator[Stage]:
    plan, history = FaultPlan(brokers=brokers), History()
    cluster = SimulatedCluster(seed, brokers=brokers)
    cluster.checkers = [*all_checkers(lambda topic: not is_promised(topic)), *cluster_checkers(cluster, history)]
    prepare(cluster)
    with cluster:
        cluster.until_ready()
        cluster.tell(lambda runtime: make_topics(cluster, plan, runtime))
        yield Stage(cluster, history, names, plan)


@pytest.mark.slow
@pytest.mark.parametrize(("drawn", "segment_bytes"), [({"log.segment.bytes": "1500"}, 1500), ({}, 8192)])
def test_logs_are_shaped_as_the_plan_says_and_roll_often_where_it_says_nothing(
    drawn: dict[str, str], segment_bytes: int
) -> None:
    cluster = SimulatedCluster(7, brokers=3, settings=drawn)
    prepare(cluster)
    with cluster:
        cluster.until_ready()
        cluster.tell(lambda runtime: make_topics(cluster, FaultPlan(settings=drawn), runtime))
        logs = {one.topic_partition: one.log for broker in cluster.brokers.values() for one in broker.partitions()}
        assert {*SAFE_PARTITIONS, UNCLEAN_PARTITION} <= set(logs)
        assert {log.config.segment_bytes for log in logs.values()} == {segment_bytes}


def test_the_default_workloads_are_these() -> None:
    cluster = SimulatedCluster()
    found = default_workloads(cluster, FaultPlan(), History(), cluster.world.randomness)
    cluster.world.loop.close()
    assert [each.name for each in found] == [*WRITERS, *READERS, *GROUPS, *TRANSACTIONS, *ADMINISTRATORS]
    assert [each.name for each in found if each.is_reading] == [*READERS, *GROUPS, "copies", "auditor"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WRITERS, *READERS, *GROUPS, *TRANSACTIONS, *ADMINISTRATORS])
def test_a_workload_goes_on_in_a_quiet_cluster(name: str) -> None:
    with stage(1, name, *WITH_LEDGER.get(name, ())) as quiet:
        quiet.until_more_steps(name)
        quiet.cluster.world.run_for_ms(1_000)
        ending = quiet.end()
        assert not quiet.history.protests
        assert ending.consumed[SAFE_PARTITIONS[0]], "the checkers had something to look at"


@kills
@pytest.mark.slow
@pytest.mark.parametrize("name", [*WRITERS, *READERS, *GROUPS, *TRANSACTIONS, *ADMINISTRATORS])
def test_a_workload_goes_on_after_a_leader_was_killed(name: str) -> None:
    with stage(2, name, *WITH_LEDGER.get(name, ())) as shaken:
        shaken.until_more_steps(name, 1)
        leader = shaken.cluster.leader(SAFE_PARTITIONS[0])
        leader.kill()
        shaken.cluster.world.run_for_ms(500)
        leader.restart()
        shaken.until_more_steps(name)
        shaken.end()


@pytest.mark.slow
def test_a_writer_without_a_cluster_ends_when_it_is_told_to() -> None:
    with stage(3, "idempotent-1") as dark:
        dark.until_more_steps("idempotent-1")
        dark.cluster.world.fabric.faults.isolate("client")
        dark.cluster.world.run_for_ms(3_000)
        writer = dark.workloads["idempotent-1"]
        assert isinstance(writer, Sending)
        dark.stop(list(dark.workloads.values()))
        assert writer.failures > 0, "nobody was told what became of the last records"


@pytest.mark.slow
def test_a_reader_that_comes_back_goes_on_where_it_was() -> None:
    with stage(4, "returning reader") as stage_:
        reader = stage_.workloads["returning reader"]
        assert isinstance(reader, Reader)
        stage_.cluster.world.run_for_ms(12_000)  # more polls than one consumer makes
        stage_.end()
        offsets = [told.offset for told in stage_.history.readings_of(reader.name) if told.topic_partition.index == 0]
        assert offsets == list(range(len(offsets)))


@pytest.mark.slow
def test_a_reader_in_a_rack_reads_from_the_follower_there() -> None:
    with stage(5, "near reader", brokers=3) as stage_:
        stage_.until_more_steps("near reader", 50)
        assert any(stage_.cluster.state(one).leader != 2 for one in SAFE_PARTITIONS), (
            "broker 2 does not lead everything"
        )
        reader, writer = stage_.workloads["near reader"], stage_.workloads[BACKGROUND[0]]
        stage_.cluster.world.fabric.faults.partition(["client"], ["broker-2"])
        stage_.cluster.world.run_for_ms(100)
        read, written = reader.steps, writer.steps
        stage_.cluster.world.run_for_ms(1_000)
        assert writer.steps > written, "leaders take records"
        assert reader.steps == read, "but the reader waits for the follower in its rack"
        stage_.cluster.world.fabric.faults.heal()
        stage_.until_more_steps("near reader", 50)
        stage_.end()


@pytest.mark.slow
def test_idempotent_producers_are_numbered_and_renewed() -> None:
    with stage(6, "idempotent-2") as stage_:
        stage_.until_more_steps("idempotent-2", 200)
        stage_.end()
        assert stage_.history.numbered[:2] == ("idempotent-2.1", "idempotent-2.2")
        told = stage_.history.acknowledged_to("idempotent-2.1")
        assert [row.value for row in sorted(told, key=lambda row: int(row.value.split(b"/")[1]))][:2] == [
            b"idempotent-2.1/0",
            b"idempotent-2.1/1",
        ]
        assert all(row.topic_partition.topic == SAFE for row in told)


@pytest.mark.slow
def test_tellers_of_a_quiet_cluster_commit_abort_prepare_and_hand_over() -> None:
    with stage(8, "ledger", "auditor") as stage_:
        stage_.cluster.world.run_for_ms(20_000)
        stage_.end()
        history = stage_.history.transactions
        fates = [each.fate for each in history.transactions.values()]
        assert fates.count(Fate.COMMITTED) > 10
        assert fates.count(Fate.ABORTED) > 2
        assert {"ledger-plain", "ledger-prepared"} == set(history.incarnations)
        assert min(map(len, history.incarnations.values())) > 2, "some were replaced"
        read = {reading.value for reading in history.readings}
        committed = [each for each in history.transactions.values() if each.fate is Fate.COMMITTED]
        assert all(value in read for transaction in committed for value in transaction.entries)


def test_a_history_forgets_what_was_deleted_and_nothing_else() -> None:
    history = History()
    kept, gone = TopicPartition("churn-1", 0), TopicPartition("churn-2", 0)
    for topic_partition in (kept, gone):
        history.acknowledge(topic_partition, 0, b"p/0", producer="p", is_promised=True)
        history.read("r", topic_partition, 0, b"p/0")
        history.ask_deletion(topic_partition, 1)
    history.forget("churn-2")
    assert list(history.promised.promised) == [kept]
    assert [told.topic_partition for told in history.acknowledged_to("p")] == [kept]
    assert [told.topic_partition for told in history.readings_of("r")] == [kept]
    assert list(history.positions()) == [("r", kept, 1)]
    assert (history.deleted_before(kept), history.deleted_before(gone)) == (1, 0)
