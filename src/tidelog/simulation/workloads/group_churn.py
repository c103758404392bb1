"""Group churn: the members of a group come, go, stall, are stopped for a while and die without a word; some are static.

Each member is a process on a machine of its own, so that it can die alone. Now and then all of them leave, and an operator sets the group
back to earlier offsets. Whatever happens, each partition has one owner, what was committed stays, and every record is processed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from tidelog.client import Admin, ClientConfig, ClientError, Committed, ConsumerConfig, GroupDescription
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.group_history import NOTHING_COMMITTED, Commit, Fate, Protocol
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.group_member import MEMBER_SETTINGS, SESSION_MS, MemberPlan
from tidelog.simulation.workloads.group_places import MemberPlace
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS
from tidelog.simulation.workloads.workload import PATIENCE, Repeating

T = TypeVar("T")

_MEMBER_COUNTS: Final = (1, 2, 2, 3)
_ASSIGNORS: Final = ("range", "cooperative-sticky", "range,cooperative-sticky")
_REMOTE_ASSIGNORS: Final = ("uniform", "range")
_STATIC_ONE_IN: Final = 3
_CAREFUL_ONE_IN: Final = 2  # commits before it gives partitions up
_RESETS_ONE_IN: Final = 6
_AWAY_MS: Final = ((50, 400), (400, 2_000), (SESSION_MS, SESSION_MS + 2_500))
_SET_BACK_BY_MAX: Final = 30
_RESET_ATTEMPTS_MAX: Final = 12
_BETWEEN_LOOKS_MS: Final = 500
_LOOKS_FOR_THE_END: Final = 80
_BETWEEN_LOOKS_FOR_THE_END_S: Final = 0.1
_STABLE: Final = "Stable"


class GroupChurn(Repeating):
    """One group. Its members go on by themselves; each step of the churn does something to one of them, or to all."""

    is_reading = True

    def __init__(
        self,
        name: str,
        cluster: SimulatedCluster,
        history: History,
        randomness: SimulatedRandomness,
        *,
        protocol: Protocol,
    ) -> None:
        super().__init__(name, randomness, pause_ms=(500, 2_500))
        self._history = history
        self._protocol = protocol
        self._admin_config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap, **PATIENCE})
        self._described: GroupDescription | ErrorCode | None = None
        self._assignors = self._pick(_ASSIGNORS)  # of all members alike: classic ones must have one in common
        self._places = [
            MemberPlace(
                cluster.world.node(f"{name}-{number}"),
                self._draw_plan(cluster.bootstrap, number),
                history,
                randomness.stream(f"member {number}"),
            )
            for number in range(1, self._pick(_MEMBER_COUNTS) + 1)
        ]

    async def run(self, runtime: Runtime) -> None:
        """Churn until stopped, then have everybody leave."""
        self._history.groups.begin(self.name, self._protocol, SAFE_PARTITIONS)
        await super().run(runtime)
        await self._end_all()

    async def session(self, runtime: Runtime) -> None:
        """One admin; the members have their own connections."""
        self._start_all()
        async with Admin.connect(self._admin_config, runtime) as admin:
            while not self.is_stopping:
                if self.is_settling:
                    self._start_all()  # Some may have been about to leave.
                    await self._describe(admin)
                    await self.wait_ms(_BETWEEN_LOOKS_MS)
                else:
                    await self.pause()
                    await self._churn(admin)

    def settle(self) -> None:
        """Everybody comes back, commits all it has processed, and stays; one of them, by chance, is gone for good instead."""
        super().settle()
        if len(self._places) > 1 and self.randomness.below(2):
            gone = self._places.pop(self.randomness.below(len(self._places)))
            gone.kill()
        self._start_all()

    def lag(self, snapshot: Snapshot) -> Iterator[str]:
        """What is missing for a group at rest: all members there and the group stable, one owner per partition, everything committed."""
        described = self._described
        if not isinstance(described, GroupDescription) or described.state != _STABLE:
            state = described.state if isinstance(described, GroupDescription) else described
            yield f"the group {self.name} is {state}"
        elif len(described.members) != len(self._places):
            yield f"the group {self.name} has {len(described.members)} members, {len(self._places)} live"
        for topic_partition in SAFE_PARTITIONS:
            owners = [place.name for place in self._places if place.member and topic_partition in place.member.owned]
            if len(owners) != 1:
                yield f"{topic_partition} is owned by {owners} of the group {self.name}"
        for leader in snapshot.leaders():
            if leader.topic_partition in SAFE_PARTITIONS:
                offset = self._history.groups.last_committed(self.name, leader.topic_partition)
                if max(offset, leader.log_start_offset) < leader.high_watermark:
                    yield (
                        f"the group {self.name} has committed {offset} of {leader.topic_partition}, "
                        f"which is committed up to {leader.high_watermark}"
                    )

    # What happens to members.

    async def _churn(self, admin: Admin) -> None:
        if self.is_stopping or self._is_called_back:
            return
        await self._look(admin)
        if self.randomness.below(_RESETS_ONE_IN) == 0:
            await self._reset(admin)
            return
        place = self._pick(self._places)
        away = (place.kill, place.leave, place.pause)[self.randomness.below(3)]
        away()
        await self.wait_ms(self.randomness.between(*self._pick(_AWAY_MS)))
        if away == place.leave:
            await self._ended([place])
        if place in self._places:
            place.resume()
            place.start()

    def _start_all(self) -> None:
        for place in self._places:
            place.resume()
            place.start()
            if self.is_settling and place.member is not None:
                place.member.hurry()

    async def _end_all(self) -> None:
        for place in self._places:
            place.resume()
            place.leave()
        await self._ended(self._places)

    async def _ended(self, places: Sequence[MemberPlace]) -> None:
        """Wait until the processes have ended; those that cannot reach anybody to say goodbye to are killed in the end."""
        for _ in range(_LOOKS_FOR_THE_END):
            if self._is_called_back or not any(place.is_running for place in places):
                return
            await asyncio.sleep(_BETWEEN_LOOKS_FOR_THE_END_S)
        for place in places:
            place.kill()

    @property
    def _is_called_back(self) -> bool:
        """Whether those who were away have been started again by `settle`."""
        return self.is_settling and not self.is_stopping

    # What an operator does.

    async def _describe(self, admin: Admin) -> None:
        try:
            self._described = (await admin.groups.describe_groups([self.name]))[self.name]
        except ClientError:
            self._described = None

    async def _reset(self, admin: Admin) -> None:
        """Have everybody leave, set the group back a little, and have them come again."""
        await self._end_all()
        try:
            for _ in range(_RESET_ATTEMPTS_MAX):
                if self.is_stopping or self._is_called_back or await self._set_back(admin):
                    return
                await self.wait_ms(_BETWEEN_LOOKS_MS)  # A member that could not say goodbye is missed only later.
        except ClientError:
            self.failures += 1
        finally:
            self._start_all()

    async def _look(self, admin: Admin) -> dict[TopicPartition, Committed]:
        """What is committed, of all partitions; nothing if nobody says."""
        asked = self._history.groups.now()
        found = (await admin.groups.committed_offsets([self.name]))[self.name]
        if isinstance(found, ErrorCode):
            return {}
        for one in SAFE_PARTITIONS:
            offset = found[one].offset if one in found else NOTHING_COMMITTED
            self._history.groups.show(self.name, one, offset, asked=asked, to="the operator")
        return found

    async def _set_back(self, admin: Admin) -> bool:
        wanted = {
            topic_partition: Committed(max(committed.offset - self.randomness.below(_SET_BACK_BY_MAX), 0))
            for topic_partition, committed in (await self._look(admin)).items()
        }
        return bool(wanted) and await self._alter(admin, wanted)

    async def _alter(self, admin: Admin, wanted: dict[TopicPartition, Committed]) -> bool:
        groups = self._history.groups
        asked = {
            one: groups.ask(
                self.name, one, Commit(by="the operator", offset=to.offset, asked=groups.now(), is_reset=True)
            )
            for one, to in wanted.items()
        }
        codes: dict[TopicPartition, ErrorCode] = {}
        try:
            codes = await admin.groups.alter_offsets(self.name, wanted)
        finally:
            for topic_partition, commit in asked.items():
                fate = _FATES.get(codes.get(topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR), Fate.UNKNOWN)
                groups.answer(self.name, topic_partition, commit, fate, commit.epoch)
        return all(code is ErrorCode.NONE for code in codes.values())

    # What is drawn.

    def _draw_plan(self, bootstrap: str, number: int) -> MemberPlan:
        settings = {
            **MEMBER_SETTINGS,
            "bootstrap.servers": bootstrap,
            "client.id": f"{self.name}-{number}",
            "group.id": self.name,
            "group.protocol": self._protocol.value,
        }
        if self.randomness.below(_STATIC_ONE_IN) == 0:
            settings["group.instance.id"] = f"{self.name}-{number}"
        if self._protocol is Protocol.CONSUMER:
            settings["group.remote.assignor"] = self._pick(_REMOTE_ASSIGNORS)
        else:
            settings |= {
                "session.timeout.ms": str(SESSION_MS),
                "heartbeat.interval.ms": "1000",
                "partition.assignment.strategy": self._assignors,
            }
        return MemberPlan(
            group=self.name,
            config=ConsumerConfig.from_properties(settings),
            is_careful=self.randomness.below(_CAREFUL_ONE_IN) == 0,
            on_processed=self._on_processed,
        )

    def _on_processed(self) -> None:
        self.steps += 1

    def _pick(self, choices: Sequence[T]) -> T:
        return choices[self.randomness.below(len(choices))]


_FATES: Final = {ErrorCode.NONE: Fate.ACKNOWLEDGED, ErrorCode.UNKNOWN_MEMBER_ID: Fate.REFUSED}
"""A group that still has members has not heeded an earlier attempt either: nobody joins meanwhile."""
