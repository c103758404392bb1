"""What must always hold of three replicas, whatever has happened to them, and what must hold once nothing happens any more."""

from __future__ import annotations

from tests.partition.replicas import values
from tests.partition.small_cluster import BROKERS, SmallCluster
from tidelog.model import BrokerId
from tidelog.partition import Partition


def check(cluster: SmallCluster) -> None:
    """Every invariant, whatever has happened."""
    running = [each.replica for each in cluster.brokers.values() if each.replica is not None]
    for replica in running:
        log = replica.log
        assert log.log_start_offset <= replica.high_watermark <= log.log_end_offset
    _check_watermarks(cluster)
    contents = {replica.broker_id: _contents(cluster, replica) for replica in running}
    _check_agreement(running, contents)
    _check_acked(cluster, running, contents)


def _contents(cluster: SmallCluster, replica: Partition) -> dict[int, str]:
    log = replica.log
    life = cluster.brokers[replica.broker_id].life
    version = (life, log.cut_count, log.log_start_offset, log.log_end_offset)
    known = cluster.read.get(replica.broker_id)
    if known is None or known[0] != version:
        known = cluster.read[replica.broker_id] = (version, values(replica))
    return known[1]


def _check_watermarks(cluster: SmallCluster) -> None:
    for broker in cluster.brokers.values():
        replica = broker.replica
        if replica is not None and replica.is_leader:
            before = broker.watermarks.get(replica.reign, 0)
            assert replica.high_watermark >= before, "the watermark went back within a reign"
            broker.watermarks[replica.reign] = replica.high_watermark


def _check_agreement(running: list[Partition], contents: dict[BrokerId, dict[int, str]]) -> None:
    for one in running:
        for other in running:
            end = min(one.high_watermark, other.high_watermark)
            start = max(one.log.log_start_offset, other.log.log_start_offset)
            for offset in range(start, end):
                ours, theirs = contents[one.broker_id][offset], contents[other.broker_id][offset]
                assert ours == theirs, f"{ours} and {theirs} at offset {offset}, below both watermarks"


def _check_acked(cluster: SmallCluster, running: list[Partition], contents: dict[BrokerId, dict[int, str]]) -> None:
    """A member of the ISR holds all that was ever acknowledged: whoever of them is elected, nothing is lost."""
    for replica in running:
        if replica.broker_id not in cluster.state.isr:
            continue
        for offset, value in cluster.acked.items():
            is_deleted = offset < replica.log.log_start_offset
            assert is_deleted or contents[replica.broker_id].get(offset) == value, (
                f"{value} was acknowledged at {offset}, and broker {replica.broker_id} of the ISR lacks it"
            )


def check_healed(cluster: SmallCluster) -> None:
    """After the faults: one leader, everybody in sync, one log."""
    check(cluster)
    replicas = [each.replica for each in cluster.brokers.values() if each.replica is not None]
    assert len(replicas) == len(BROKERS)
    assert sorted(cluster.state.isr) == list(BROKERS)
    assert len({replica.log.log_end_offset for replica in replicas}) == 1
    leader = next(replica for replica in replicas if replica.is_leader)
    assert leader.high_watermark == leader.log.log_end_offset
    assert not cluster.parked
