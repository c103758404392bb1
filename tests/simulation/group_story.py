"""A group whose coordinator dies: two members join, commit and go on. For sweeps over every moment at which that may happen."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.clusters import SAFE, T0, make_topic, produce
from tests.simulation.workload import properties
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.client import Admin, ClientConfig, ConsumerConfig, NewTopic
from tidelog.model import BrokerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.checkers import CommittedOffsetsStay, OffsetsSurvive, OneOwner, ZombiesCommitNothing
from tidelog.simulation.checkers.ending import ending_of
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.group_history import Protocol
from tidelog.simulation.workloads import History
from tidelog.simulation.workloads.group_member import MEMBER_SETTINGS, SESSION_MS, MemberPlan
from tidelog.simulation.workloads.group_places import MemberPlace

OFFSETS = TopicPartition(GROUPS_TOPIC, 0)
SETTINGS = {
    **SAFE,
    "offsets.topic.num.partitions": "1",
    "offsets.commit.timeout.ms": "1500",
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
}


class GroupStory:
    """Told again and again, each time from the beginning. Broker 1 coordinates at first, then 2 or 3."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._history = History()
        self._places: list[MemberPlace] = []

    def before(self, cluster: SimulatedCluster) -> None:
        """A topic with some records, and a place for offsets on brokers 1, 2 and 3."""
        self._history = History()
        groups = self._history.groups
        groups.begin("g", self._protocol, [T0])
        cluster.checkers += [OneOwner(groups), CommittedOffsetsStay(groups), ZombiesCommitNothing(groups)]
        make_topic(cluster, (1, 2, 3))
        cluster.tell(lambda runtime: _make_offsets(cluster, runtime))
        for number in range(3):
            produce(cluster, b"before %d" % number)
        randomness = cluster.world.randomness.stream("members")
        self._places = [
            MemberPlace(
                cluster.world.node(f"member-{number}"),
                self._plan(cluster),
                self._history,
                randomness.stream(f"member {number}"),
            )
            for number in (1, 2)
        ]

    def stretch(self, cluster: SimulatedCluster) -> None:
        """One member joins and commits, another joins, the coordinator dies, and what the group does then is committed elsewhere."""
        groups = self._history.groups
        self._start(0)
        _wait(cluster, lambda: groups.last_committed("g", T0) > 0)
        self._start(1)
        cluster.world.run_for_ms(600)
        if cluster.brokers[1].node.is_running:
            cluster.brokers[1].kill()
        _wait(cluster, lambda: cluster.state(OFFSETS).leader in (2, 3))
        said = len(groups.answers)
        _wait(cluster, lambda: len(groups.answers) > said)

    def after(self, cluster: SimulatedCluster) -> None:
        """The group comes to the end of the topic, and what it was told is what is there."""
        groups = self._history.groups
        end = max(view.high_watermark for view in cluster.snapshot().leaders() if view.topic_partition == T0)
        cluster.until(lambda: groups.last_committed("g", T0) == end, "the group has committed everything")
        for place in self._places:
            place.leave()
        cluster.until(lambda: not any(place.is_running for place in self._places), "all have left")
        cluster.until(lambda: cluster.snapshot().is_whole(OFFSETS), "all have the offsets")
        assert not list(OffsetsSurvive().verdict(ending_of(cluster, self._history)))

    def _start(self, index: int) -> None:
        self._places[index].start()
        member = self._places[index].member
        assert member is not None
        member.hurry()

    def _plan(self, cluster: SimulatedCluster) -> MemberPlan:
        classic = {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "500"}
        settings = {
            **properties(cluster, group_id="g", group_protocol=self._protocol.value),
            **MEMBER_SETTINGS,
            "fetch.min.bytes": "1",
            **(classic if self._protocol is Protocol.CLASSIC else {}),
        }
        return MemberPlan(group="g", config=ConsumerConfig.from_properties(settings), is_careful=True, topic="t")


def _wait(cluster: SimulatedCluster, is_so: Callable[[], bool], *, at_most_ms: float = 2_500) -> None:
    """Until something holds, or not: a crash may have come in between."""
    deadline_ms = cluster.world.loop.time() * 1000 + at_most_ms
    while cluster.world.loop.time() * 1000 < deadline_ms and not is_so():
        cluster.world.run_for_ms(5)


async def _make_offsets(cluster: SimulatedCluster, runtime: Runtime) -> None:
    replicas: tuple[BrokerId, ...] = (1, 2, 3)
    topic = NewTopic(
        name=GROUPS_TOPIC, assignment={0: replicas}, configs={"cleanup.policy": "compact", "min.insync.replicas": "2"}
    )
    async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
        (result,) = await admin.create_topics([topic])
        assert result.is_ok, result
