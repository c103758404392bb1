"""What can be seen of a cluster from outside, as one who waits for it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tidelog.cli.output import render_table, shown
from tidelog.cli.replica_table import COLUMNS, replica_rows
from tidelog.client import Admin, ClientError, GroupDescription, ReplicaDescription
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.testing.errors import ClusterFailed, NotInTime

T = TypeVar("T")
LOOK_AGAIN_S: Final = 0.02
_SHOWN: Final = tuple(column for column in COLUMNS if column != "last_caught_up")
_NOT_SHOWN: Final = 0  # the time, which that column would want


async def until(
    look: Callable[[], Awaitable[T]],
    is_wanted: Callable[[T], bool],
    *,
    wanted: str,
    timeout_s: float,
    shown: Callable[[T], str] = str,
    why_nothing: Callable[[], str] = lambda: "nothing",
) -> T:
    """Look again and again until it is as wanted; what is seen then. Raises NotInTime, which says what was seen last, or why nothing was."""
    __tracebackhide__ = True
    seen: str | None = None
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    found = await look()
                except (ClientError, ClusterFailed) as error:
                    seen = str(error)
                else:
                    if is_wanted(found):
                        return found
                    seen = shown(found)
                await asyncio.sleep(LOOK_AGAIN_S)
    except TimeoutError:
        raise NotInTime(f"{wanted}: not within {timeout_s:g} s; last seen: {seen or why_nothing()}") from None


async def leading_replica(admin: Admin, partition: TopicPartition) -> ReplicaDescription | None:
    """The replica that leads in the newest epoch, as it says itself; nobody where nobody says so."""
    answers = await admin.describe_replicas([partition])
    leading = [told for replicas in answers.values() for told in replicas if told.is_ok and told.is_leader]
    return max(leading, key=lambda told: told.leader_epoch, default=None)


async def watched_replica(admin: Admin, partition: TopicPartition) -> ReplicaDescription | None:
    """The same for one who waits: a partition that there is not is told by name. Raises ClusterFailed."""
    told = await leading_replica(admin, partition)
    if told is None and (wrong := await no_such_partition(admin, partition)):
        raise ClusterFailed(wrong)
    return told


async def no_such_partition(admin: Admin, partition: TopicPartition) -> str | None:
    """What is wrong with the name of a partition; None where there is one."""
    known = (await admin.describe_topics([partition.topic]))[partition.topic]
    if isinstance(known, ErrorCode):
        return f"there is no topic {partition.topic!r}: {known.name}"
    if partition.index not in {each.index for each in known.partitions}:
        return no_partition(partition.topic, partition.index, len(known.partitions))
    return None


def no_partition(topic: str, partition: int, count: int) -> str:
    """What to say to one who names a partition beyond the last."""
    return f"topic {topic!r} has no partition {partition}: it has {count}, numbered from 0"


async def lagging(admin: Admin) -> list[str]:
    """The partitions that nobody leads, or whose leader has not all replicas in sync."""
    answers = await admin.describe_replicas()
    told = sorted((each for replicas in answers.values() for each in replicas), key=lambda each: each.leader_epoch)
    whole = {each.topic_partition: False for each in told}
    for each in told:  # the newest epoch last, whose leader knows best
        if each.is_ok and each.is_leader:
            whole[each.topic_partition] = len(each.isr) == len(each.assignment)
    return sorted(str(place) for place, is_whole in whole.items() if not is_whole)


async def coordinator_of(admin: Admin, group_id: str) -> BrokerId:
    """The broker that looks after a group. Raises ClusterFailed."""
    found = (await admin.groups.find_coordinators([group_id]))[group_id]
    if isinstance(found, ErrorCode):
        raise ClusterFailed(f"group {group_id} has no coordinator: {found.name}")
    return found


async def described_group(admin: Admin, group_id: str) -> GroupDescription:
    """A group with its members. Raises ClusterFailed."""
    found = (await admin.groups.describe_groups([group_id]))[group_id]
    if not isinstance(found, GroupDescription):
        raise ClusterFailed(f"group {group_id} cannot be described: {found.name}")
    return found


async def replica_table(admin: Admin) -> str:
    """Every replica as a table for people."""
    rows = replica_rows(await admin.describe_replicas(), now_ms=_NOT_SHOWN)
    return render_table(_SHOWN, [[shown(row.get(column)) for column in _SHOWN] for row in rows])
