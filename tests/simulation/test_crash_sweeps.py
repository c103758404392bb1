"""Stories in which a broker dies at every single file operation, and at every single message: whenever it is, everything ends well.

Each ends healed, with all replicas whole and equal, every promise kept, and the checkers (I1 to I6) looking on all the time. Some points of
each are told in every run of the tests; all of them with `make proof`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.simulation.clusters import SAFE, T0, contents, is_whole, kills, make_topic, produce
from tests.simulation.crash_points import KINDS, Sweep, count_points, crash_at
from tests.simulation.group_story import SETTINGS as GROUP_SETTINGS
from tests.simulation.group_story import GroupStory
from tests.simulation.workload import properties
from tidelog.client import Admin, ClientConfig, ClientError, NewTopic
from tidelog.controller import layout
from tidelog.model import BrokerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.group_history import Protocol
from tidelog.simulation.registry_session import RegistryTiming

PARTS = 4
QUICK = {"replica.lag.time.max.ms": "500", "auto.leader.rebalance.enable": "false"}
OFTEN = {"replica.high.watermark.checkpoint.interval.ms": "100", "log.flush.offset.checkpoint.interval.ms": "100"}
FLUSHED = {"log.flush.interval.messages": "1"}
REPLICAS = (1, 2, 3)
CONTROLLER = 4


def world(brokers: int, settings: Mapping[str, str]) -> Callable[[], SimulatedCluster]:
    """A cluster whose dead are soon missed."""
    timing = RegistryTiming(session_timeout_ms=1_000)
    return lambda: SimulatedCluster(
        1, brokers=brokers, first=min(brokers, CONTROLLER), settings={**QUICK, **settings}, timing=timing
    )


def wait(cluster: SimulatedCluster, until: Callable[[], bool], *, at_most_ms: float = 1_500) -> None:
    """Until something holds, or not: a crash may have come in between."""
    deadline_ms = cluster.world.loop.time() * 1000 + at_most_ms
    while cluster.world.loop.time() * 1000 < deadline_ms and not until():
        cluster.world.run_for_ms(5)


def leads(cluster: SimulatedCluster, *broker_ids: BrokerId) -> bool:
    return cluster.state(T0).leader in broker_ids


def kill(cluster: SimulatedCluster, broker_id: BrokerId) -> None:
    if cluster.brokers[broker_id].node.is_running:
        cluster.brokers[broker_id].kill()


def start(cluster: SimulatedCluster, broker_id: BrokerId) -> None:
    if not cluster.brokers[broker_id].node.is_running:
        cluster.brokers[broker_id].restart()


def administrate(cluster: SimulatedCluster, *steps: Callable[[Admin], object], at_most_ms: float = 1_500) -> None:
    """What an administrator asks for, one after the other; a broker that dies under it is no news to anybody."""

    async def work(runtime: Runtime) -> None:
        for step in steps:
            try:
                async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                    await step(admin)  # type: ignore[misc]
            except ClientError:
                continue

    task = cluster.client.spawn(work(cluster.client.runtime))
    wait(cluster, task.done, at_most_ms=at_most_ms)


def let_only_clients_reach(cluster: SimulatedCluster, broker_id: BrokerId) -> None:
    """Cut a broker off, and wait until no fetch of a follower is parked there any more."""
    name = f"broker-{broker_id}"
    cluster.world.fabric.faults.isolate(name)
    for source, target in (("client", name), (name, "client")):
        cluster.world.fabric.faults.mend(source, target)
    cluster.world.run_for_ms(1_000)


# R01 and R02: two replicas, A (broker 1) and B (broker 2), and a controller beside them.


def b_has_m1_and_does_not_know_it_committed(cluster: SimulatedCluster) -> None:
    make_topic(cluster, (1, 2))
    assert [produce(cluster, value) for value in (b"m0", b"m1")] == [0, 1]


def b_restarts_and_a_dies(cluster: SimulatedCluster) -> None:
    cluster.brokers[2].bounce()
    cluster.world.run_for_ms(20)
    kill(cluster, 1)
    wait(cluster, lambda: leads(cluster, 2))
    start(cluster, 2)
    wait(cluster, lambda: leads(cluster, 2), at_most_ms=500)
    start(cluster, 1)
    cluster.world.run_for_ms(300)


def m0_and_m1_are_there(cluster: SimulatedCluster) -> None:
    for broker_id in (1, 2):
        found = contents(cluster, broker_id)
        assert (found[0], found[1]) == (b"m0", b"m1")


def a_alone_has_m1(cluster: SimulatedCluster) -> None:
    """A record that only its leader has, who dies with it; B, which is in the ISR, dies as well."""
    make_topic(cluster, (1, 2))
    assert produce(cluster, b"m0") == 0
    let_only_clients_reach(cluster, 1)
    assert produce(cluster, b"m1", acks="1") == 1
    for broker_id in (1, 2):
        cluster.brokers[broker_id].kill()
    cluster.store.expire_node("broker-1")  # It is missed first: whoever is missed last stays in the ISR.
    cluster.world.fabric.faults.heal()
    cluster.until(lambda: leads(cluster, -1), "nobody leads")


def b_leads_and_a_comes_back(cluster: SimulatedCluster) -> None:
    start(cluster, 2)
    wait(cluster, lambda: leads(cluster, 2))
    cluster.world.run_for_ms(100)
    start(cluster, 1)
    wait(cluster, lambda: len(cluster.state(T0).isr) == 2)


def there_is_one_history(cluster: SimulatedCluster) -> None:
    """m1 was never acknowledged. If B leads it is gone; if B lost power before, the farthest log is A's, and it stays: but on both."""
    assert contents(cluster, 1) == contents(cluster, 2)
    assert contents(cluster, 1)[0] == b"m0"


# Three replicas, and a controller beside them.


def three_replicas(cluster: SimulatedCluster) -> None:
    make_topic(cluster, REPLICAS)
    for number in range(3):
        produce(cluster, b"before %d" % number)


def leader_dies(cluster: SimulatedCluster) -> None:
    kill(cluster, 1)
    wait(cluster, lambda: leads(cluster, 2, 3))
    cluster.world.run_for_ms(100)


def leader_with_a_tail_of_its_own(cluster: SimulatedCluster) -> None:
    three_replicas(cluster)
    let_only_clients_reach(cluster, 1)
    for number in range(3):
        produce(cluster, b"of nobody %d" % number, acks="1")
    cluster.brokers[1].kill()
    cluster.world.fabric.faults.heal()
    cluster.until(lambda: leads(cluster, 2, 3), "another leads")


def former_leader_comes_back(cluster: SimulatedCluster) -> None:
    start(cluster, 1)
    wait(cluster, lambda: 1 in cluster.state(T0).isr)


def nothing_of_nobody_is_left(cluster: SimulatedCluster) -> None:
    for broker_id in REPLICAS:
        assert not [value for value in contents(cluster, broker_id).values() if value.startswith(b"of nobody")]


def follower_leaves_the_isr_and_returns(cluster: SimulatedCluster) -> None:
    cluster.brokers[3].pause()
    wait(cluster, lambda: 3 not in cluster.state(T0).isr)
    cluster.brokers[3].resume()
    wait(cluster, lambda: 3 in cluster.state(T0).isr)


def replica_moves(cluster: SimulatedCluster) -> None:
    administrate(cluster, lambda admin: admin.alter_reassignments({T0: (5, 2, 3)}))
    wait(cluster, lambda: cluster.state(T0).assignment == (5, 2, 3))


def replica_is_here_or_there(cluster: SimulatedCluster) -> None:
    cluster.until(lambda: cluster.state(T0).assignment in ((1, 2, 3), (5, 2, 3)), "the move is over, or never was")
    assignment = cluster.state(T0).assignment
    gone = 1 if 5 in assignment else 5
    cluster.until(
        lambda: not cluster.brokers[gone].node.disk.exists("/data/t-0"), "no log is left where it is not wanted"
    )


def topics_come_and_go(cluster: SimulatedCluster) -> None:
    administrate(
        cluster,
        lambda admin: admin.create_topics([NewTopic(name="n", partition_count=2, replication_factor=3)]),
        lambda admin: admin.delete_topics(["n"]),
        lambda admin: admin.create_topics([NewTopic(name="m", partition_count=1, replication_factor=3)]),
    )


def no_topic_is_half_there(cluster: SimulatedCluster) -> None:
    tree = cluster.store.tree
    cluster.until(lambda: tree.peek_children(layout.DELETIONS) == [], "what is to be deleted is")
    for topic in tree.peek_children(layout.TOPICS):
        until_whole(cluster, TopicPartition(topic, 0))


def until_whole(cluster: SimulatedCluster, topic_partition: TopicPartition) -> None:
    cluster.until(lambda: is_whole(cluster, topic_partition), f"{topic_partition} is whole")


def controller_dies_with_something_to_do(cluster: SimulatedCluster) -> None:
    kill(cluster, 1)
    cluster.store.expire_node("broker-1")
    kill(cluster, CONTROLLER)
    wait(cluster, lambda: leads(cluster, 2, 3))
    cluster.world.run_for_ms(100)


def small_segments(cluster: SimulatedCluster) -> None:
    make_topic(cluster, REPLICAS, {"segment.bytes": "300"})
    produce(cluster, b"before")


def segments_are_rolled_and_checkpoints_written(cluster: SimulatedCluster) -> None:
    cluster.world.run_for_ms(500)


R01 = Sweep(
    name="r01 restart and fail-over",
    victim=2,
    cluster=world(3, FLUSHED),
    before=b_has_m1_and_does_not_know_it_committed,
    stretch=b_restarts_and_a_dies,
    after=m0_and_m1_are_there,
)
R02 = Sweep(
    name="r02 two histories",
    victim=1,
    cluster=world(3, FLUSHED),
    before=a_alone_has_m1,
    stretch=b_leads_and_a_comes_back,
    after=there_is_one_history,
)
ELECTION = Sweep(name="leader election", victim=2, cluster=world(4, SAFE), before=three_replicas, stretch=leader_dies)
TRUNCATION = Sweep(
    name="becoming a follower",
    victim=1,
    cluster=world(4, SAFE),
    before=leader_with_a_tail_of_its_own,
    stretch=former_leader_comes_back,
    after=nothing_of_nobody_is_left,
)
ISR = Sweep(
    name="isr", victim=1, cluster=world(4, SAFE), before=three_replicas, stretch=follower_leaves_the_isr_and_returns
)
MOVE = Sweep(
    name="r19 reassignment",
    victim=5,
    cluster=world(5, SAFE),
    before=three_replicas,
    stretch=replica_moves,
    after=replica_is_here_or_there,
)
TOPICS = Sweep(
    name="c07 topics",
    victim=2,
    cluster=world(4, SAFE),
    before=three_replicas,
    stretch=topics_come_and_go,
    after=no_topic_is_half_there,
)
FAILOVER = Sweep(
    name="controller fail-over",
    victim=2,
    cluster=world(4, SAFE),
    before=three_replicas,
    stretch=controller_dies_with_something_to_do,
)
ROLL = Sweep(
    name="roll and checkpoint",
    victim=1,
    cluster=world(4, {**SAFE, **OFTEN}),
    before=small_segments,
    stretch=segments_are_rolled_and_checkpoints_written,
)


def group_sweep(protocol: Protocol) -> Sweep:
    """A group of which the coordinator, or the next one, dies."""
    story = GroupStory(protocol)
    return Sweep(
        name=f"{protocol.value} group",
        victim=1,
        cluster=world(4, GROUP_SETTINGS),
        before=story.before,
        stretch=story.stretch,
        after=story.after,
    )


CLASSIC_GROUP, CONSUMER_GROUP = group_sweep(Protocol.CLASSIC), group_sweep(Protocol.CONSUMER)


def of(sweep: Sweep, victim: BrokerId, role: str) -> Sweep:
    return replace(sweep, victim=victim, name=f"{sweep.name}, {role}")


SWEEPS = (
    of(R01, 2, "B"),
    replace(of(R01, 2, "B killed"), loses_power=False),
    of(R01, 1, "A"),
    of(R02, 1, "A"),
    of(R02, 2, "B"),
    of(ELECTION, 2, "next leader"),
    replace(of(ELECTION, 2, "next leader killed"), loses_power=False),
    of(ELECTION, CONTROLLER, "controller"),
    of(TRUNCATION, 1, "follower"),
    of(ISR, 1, "leader"),
    of(ISR, CONTROLLER, "controller"),
    of(MOVE, 5, "newcomer"),
    of(MOVE, 1, "leader"),
    of(MOVE, CONTROLLER, "controller"),
    of(TOPICS, 2, "replica"),
    of(TOPICS, CONTROLLER, "controller"),
    of(FAILOVER, 2, "next leader"),
    of(FAILOVER, 3, "follower"),
    of(ROLL, 1, "leader"),
    of(ROLL, 2, "follower"),
    of(CLASSIC_GROUP, 1, "coordinator"),
    of(CLASSIC_GROUP, 2, "next coordinator"),
    of(CONSUMER_GROUP, 1, "coordinator"),
    of(CONSUMER_GROUP, 2, "next coordinator"),
)
EVERY = pytest.mark.parametrize("sweep", SWEEPS, ids=[sweep.name for sweep in SWEEPS])


@kills
@pytest.mark.slow
def test_r01_a_record_stays_when_its_holder_restarts_and_the_leader_dies() -> None:
    assert min(count_points(R01).values()) > 20, "and there are many moments at which more can happen"


@kills
@pytest.mark.slow
def test_r02_a_leader_that_comes_back_gives_up_what_nobody_else_had() -> None:
    assert min(count_points(R02).values()) > 10, "and there are many moments at which more can happen"


@kills
@pytest.mark.slow
@EVERY
def test_a_crash_at_a_point_in_the_middle_ends_well(sweep: Sweep) -> None:
    counts = count_points(sweep)
    for kind in KINDS:
        if counts[kind]:
            crash_at(sweep, kind, 1 + counts[kind] // 2)


@kills
@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
@EVERY
def test_a_crash_at_every_single_point_ends_well(sweep: Sweep, part: int) -> None:
    counts = count_points(sweep)
    for kind in KINDS:
        for point in range(1 + part, counts[kind] + 1, PARTS):
            crash_at(sweep, kind, point)
