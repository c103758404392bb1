"""Faults against real processes under a load that never stops: nothing acknowledged is lost, nothing comes twice, nobody leads twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.faults import Faults
from tests.cluster.ground import BROKERS, PARTITION_COUNT, TOPIC, Ground, ground
from tests.cluster.load import LibrdkafkaLoad, Load, OwnLoad
from tests.cluster.verdict import check_one_leader_per_epoch, check_promises, leaders_by_epoch, read_replica
from tests.cluster.waiting import eventually
from tests.zookeeper_ensemble import ZooKeeperEnsemble
from tidelog.simulation.randomness import SimulatedRandomness

GAP_MAX_S: Final = (
    15.0  # of the worst partition, in the worst phase: detection, election, and the client's own timeouts
)


def check_faults(
    place: Ground, seed: str, drive: Callable[[Faults], None], *, client: type[Load] = LibrdkafkaLoad
) -> None:
    """Let the faults happen under the load, wait until all is whole, stop the brokers and look at what they left."""
    with client(place.cluster.bootstrap, TOPIC, PARTITION_COUNT) as load:
        faults = Faults(place, load, SimulatedRandomness(seed))
        faults.wait_whole()
        faults.wait_load()
        drive(faults)
    assert not load.failures
    assert load.unanswered_count == 0
    eventually(lambda: is_settled(place), "every replica has everything, and knows it")
    codes = place.cluster.stop_all()
    for phase in faults.phases:
        worst_s, best_s = max(phase.longest_gaps_s), min(phase.longest_gaps_s)
        print(f"{phase.name}: {phase.lasted_s:.1f} s, longest gaps {worst_s:.2f} s to {best_s:.2f} s")  # noqa: T201
    check_verdict(place, load)
    assert set(codes.values()) == {0}, codes
    worst = max(faults.phases, key=lambda phase: max(phase.longest_gaps_s))
    assert max(worst.longest_gaps_s) < GAP_MAX_S, worst


def is_settled(place: Ground) -> bool:
    rows = [row for found in place.witness.replicas().values() for row in found]
    ends = {(row.topic_partition, row.log_end_offset, row.high_watermark) for row in rows}
    return (
        len(rows) == PARTITION_COUNT * len(BROKERS)
        and len(ends) == PARTITION_COUNT
        and all(row.log_end_offset == row.high_watermark for row in rows)
    )


def check_verdict(place: Ground, load: Load) -> None:
    for partition in range(PARTITION_COUNT):
        directories = {broker_id: place.cluster.log_dir(broker_id) / f"{TOPIC}-{partition}" for broker_id in BROKERS}
        check_promises(load, partition, {broker_id: read_replica(path) for broker_id, path in directories.items()})
    leaders = leaders_by_epoch({broker_id: place.cluster.transcript(broker_id) for broker_id in BROKERS})
    check_one_leader_per_epoch(leaders, [f"{TOPIC}-{partition}" for partition in range(PARTITION_COUNT)])


@pytest.mark.timed
@pytest.mark.timeout(180)
def test_nothing_is_lost_while_brokers_die_and_pause_and_lose_their_links(tmp_path: Path) -> None:
    def drive(faults: Faults) -> None:
        for name in ("kill_leader", "pause_controller", "cut_link", "kill_all"):
            faults.run(name)

    with ground(tmp_path) as place:
        check_faults(place, "short", drive, client=OwnLoad)


@pytest.mark.timed
@pytest.mark.timeout(180)
def test_nothing_is_lost_while_zookeeper_and_the_brokers_die(tmp_path: Path) -> None:
    def drive(faults: Faults) -> None:
        for name in ("kill_controller", "kill_leading_member", "cut_from_registry"):
            faults.run(name)

    with ZooKeeperEnsemble(tmp_path / "ensemble") as ensemble, ground(tmp_path / "brokers", ensemble=ensemble) as place:
        check_faults(place, "short", drive)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_minute_of_faults(tmp_path: Path) -> None:
    with ground(tmp_path) as place:
        check_faults(place, "embedded", lambda faults: faults.run_for(60), client=OwnLoad)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_minute_of_faults_with_zookeeper(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path / "ensemble") as ensemble, ground(tmp_path / "brokers", ensemble=ensemble) as place:
        check_faults(place, "zookeeper", lambda faults: faults.run_for(60))
