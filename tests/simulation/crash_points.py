"""A stretch of a story told again and again, a broker dying at another point of it each time.

A point is the end of a file operation, or a message that was sent or has arrived unread. The run up to a point is the same every time, since
the seed is; what comes after it is not scripted but left to the cluster, so a stretch sets things off and waits without insisting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.clusters import contents, heal
from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.client import ClientError, Producer, ProducerConfig
from tidelog.model import BrokerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.checkers import AcknowledgedStays
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.disk_faults import Operation, PowerCut

FILE: Final = "file operation"
MESSAGE: Final = "message"
KINDS: Final = (FILE, MESSAGE)
_WRITE_EVERY_S: Final = 0.05


class Writer:
    """A client that writes a record now and then to partition 0 of `t`, and remembers what it was promised."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.acknowledged = AcknowledgedStays()
        self._cluster = cluster
        self._is_over = False
        self._task = cluster.client.spawn(self._write(cluster.client.runtime))

    async def _write(self, runtime: Runtime) -> None:
        number = 0
        config = ProducerConfig.from_properties(
            properties(self._cluster, acks="all", linger_ms="0", delivery_timeout_ms="3600000")
        )
        async with Producer.connect(config, runtime) as producer:
            while not self._is_over:
                value = b"%d" % number
                try:
                    offset = (await (await producer.send("t", value, partition=0))).offset
                except ClientError:
                    continue
                number += 1
                self.acknowledged.acknowledge(TopicPartition("t", 0), offset, value)
                await passed(_WRITE_EVERY_S)

    def stop(self) -> None:
        """No more records; wait for the one under way."""
        self._is_over = True

        async def finished() -> None:
            await self._task

        self._cluster.world.run(finished())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A story, and the stretch of it in which one broker dies."""

    name: str
    victim: BrokerId
    cluster: Callable[[], SimulatedCluster]
    before: Callable[[SimulatedCluster], None]
    stretch: Callable[[SimulatedCluster], None]
    loses_power: bool = True
    """Whether the victim's machine goes dark, or only its process is killed."""
    after: Callable[[SimulatedCluster], None] = field(default=lambda _: None)
    """What must hold beside the promises when everything is whole."""


def count_points(sweep: Sweep) -> dict[str, int]:
    """How many points of each kind the stretch has; the story is told without a crash, and must end well."""
    return _tell(sweep, None)


def crash_at(sweep: Sweep, kind: str, point: int) -> None:
    """Tell the story with a crash at a point, counted from 1, and see that it ends well."""
    try:
        _tell(sweep, (kind, point))
    except BaseException as error:
        how = "loses power" if sweep.loses_power else "dies"
        error.add_note(f"{sweep.name}: broker {sweep.victim} {how} after {kind} {point}")
        raise


def _tell(sweep: Sweep, point: tuple[str, int] | None) -> dict[str, int]:
    with sweep.cluster() as cluster:
        sweep.before(cluster)
        writer = Writer(cluster)
        begun = _counts(cluster, sweep)
        crash = None if point is None else _Crash(cluster, sweep, *point)
        sweep.stretch(cluster)
        ended = _counts(cluster, sweep)
        assert crash is None or crash.has_happened
        for broker in cluster.brokers.values():
            if not broker.node.is_running:
                broker.restart()
        writer.stop()
        heal(cluster)
        _check_promises(cluster, writer)
        sweep.after(cluster)
        return {kind: ended[kind] - begun[kind] for kind in KINDS}


def _counts(cluster: SimulatedCluster, sweep: Sweep) -> dict[str, int]:
    node = cluster.brokers[sweep.victim].node
    return {FILE: node.disk.operation_count, MESSAGE: cluster.world.fabric.counts.of(node.name)}


def _check_promises(cluster: SimulatedCluster, writer: Writer) -> None:
    for topic_partition in writer.acknowledged.promised:
        for broker_id in cluster.state(topic_partition).assignment:
            found = contents(cluster, broker_id, topic_partition)
            assert not list(writer.acknowledged.missing(topic_partition, found)), f"broker {broker_id}"


class _Crash:
    """One death, armed for a point from now on."""

    def __init__(self, cluster: SimulatedCluster, sweep: Sweep, kind: str, point: int) -> None:
        self.has_happened = False
        self._broker = cluster.brokers[sweep.victim]
        self._loses_power = sweep.loses_power
        if kind == FILE:
            self._due = self._broker.node.disk.operation_count + point
            self._broker.node.disk.on_operation(self._on_operation)
        else:
            cluster.world.fabric.counts.after(self._broker.node.name, point, self._die)

    def _on_operation(self, operation: Operation) -> None:
        if operation.number == self._due:
            self._die()
            raise PowerCut  # Nothing of the process goes on after this operation.

    def _die(self) -> None:
        self.has_happened = True
        if self._broker.node.is_running:
            self._broker.die_now(lost_power=self._loses_power)
