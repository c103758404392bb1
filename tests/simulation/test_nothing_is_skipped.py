"""What could not be looked at is told: a log without a file, a log that cannot be read, a partition that nobody leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.simulation.clusters import T0, kills, make_topic, produce
from tests.simulation.views import P0, snapshot
from tidelog.model import BrokerId, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.simulation.checkers import EverythingIsRead, FilesAreThere, RecoveredIsSound
from tidelog.simulation.checkers.ending import Ending, ending_of
from tidelog.simulation.checkers.reading import Unreadable, batches_of
from tidelog.simulation.checkers.recovery_repeats import recovery_violations
from tidelog.simulation.cluster import LOG_DIR, SimulatedCluster
from tidelog.simulation.workloads import History

SEGMENT = f"{LOG_DIR}/{T0}/00000000000000000000.log"

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """One broker, with two records in a log nobody has looked at yet."""
    with SimulatedCluster(5) as made:
        make_topic(made, (1,))
        produce(made, b"one")
        produce(made, b"two")
        yield made


def replica(cluster: SimulatedCluster) -> Partition:
    return next(one for one in cluster.brokers[1].partitions() if one.topic_partition == T0)


def cut_away(cluster: SimulatedCluster, size: int) -> None:
    """The last bytes of the log go, below every fault and every counter."""
    file = cluster.brokers[1].node.disk.peek(SEGMENT)
    assert file is not None
    del file.content[-size:]


def test_a_file_that_is_gone_is_told_and_is_no_rot(cluster: SimulatedCluster) -> None:
    checker = FilesAreThere()
    assert list(checker.look(cluster.snapshot())) == []
    cluster.brokers[1].node.disk.unlink(SEGMENT)
    produce(cluster, b"three")
    seen = cluster.snapshot()
    assert list(checker.look(seen)) == [f"t-0: broker 1 has a log without {SEGMENT}"]
    assert not seen.replicas[T0][0].log.is_rotten
    assert list(RecoveredIsSound(cluster.brokers.values()).look(seen)) == [
        f"t-0: broker 1 opened a log with no file {SEGMENT}"
    ]


def test_a_bit_that_has_turned_is_rot_and_no_file_is_missing(cluster: SimulatedCluster) -> None:
    cluster.brokers[1].node.disk.flip_bit(SEGMENT, position=70)
    seen = cluster.snapshot()
    assert seen.replicas[T0][0].log.is_rotten
    assert list(FilesAreThere().look(seen)) == []


def test_a_log_that_ends_too_early_is_not_read_in_silence(cluster: SimulatedCluster) -> None:
    assert len(list(batches_of(replica(cluster).log))) == 2
    cut_away(cluster, 1)
    with pytest.raises(Unreadable, match="at offset 1 of 2: "):
        list(batches_of(replica(cluster).log))
    ending = ending_of(cluster, History())
    assert next(iter(EverythingIsRead().verdict(ending))).startswith(
        "broker 1 cannot read its log of t-0 at offset 1 of 2: "
    )


def test_a_log_of_which_everything_is_there_has_been_read(cluster: SimulatedCluster) -> None:
    assert list(EverythingIsRead().verdict(ending_of(cluster, History()))) == []


@kills
def test_a_partition_that_nobody_leads_in_the_end_is_told() -> None:
    with SimulatedCluster(5, brokers=2) as cluster:
        make_topic(cluster, (1, 2))
        cluster.until(lambda: len(cluster.snapshot().replicas.get(T0, ())) == 2, "both have a replica")
        cluster.brokers[1].kill()
        assert list(EverythingIsRead().verdict(ending_of(cluster, History()))) == [
            "t-0 is led by nobody of whom a consumer could read it",
            "broker 1 has no log of t-0, which is assigned to it",
        ]


def test_a_transactional_partition_must_be_read_as_what_is_committed_too(cluster: SimulatedCluster) -> None:
    class Ledger(History):
        def is_transactional(self, topic: str) -> bool:
            return topic == P0.topic

    log: Mapping[Offset, bytes] = {0: b"x"}
    contents: dict[tuple[BrokerId, TopicPartition], Mapping[Offset, bytes]] = {(1, P0): log, (2, P0): log}
    ending = Ending(
        history=Ledger(), snapshot=snapshot(), contents=contents, consumed={P0: log}, cluster=cluster, committed={}
    )
    assert list(EverythingIsRead().verdict(ending)) == [
        "safe-0 is led by nobody of whom a consumer could read what is committed",
        "broker 1 has a log of safe-0 whose transactions were not read",
        "broker 2 has a log of safe-0 whose transactions were not read",
    ]


def test_a_log_that_is_gone_from_a_copy_of_the_disk_is_told(cluster: SimulatedCluster) -> None:
    before = cluster.snapshot()
    cluster.brokers[1].node.disk.rmtree(f"{LOG_DIR}/{T0}")
    assert next(iter(recovery_violations(cluster.brokers[1], before, LOG_DIR))) == (
        "broker 1 after a kill: t-0 is not there, of which the broker has a log that ends at 2"
    )
