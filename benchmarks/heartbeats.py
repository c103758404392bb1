"""Many members of classic groups who do nothing but say that they are there, each on a connection of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.loads import Reading
from benchmarks.wire_client import AsyncConnection
from tests.compatibility.processes import TidelogUp
from tidelog.model import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

INTERVAL_S: Final = 3.0
SESSION_MS: Final = 45_000
FIND_VERSION, JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 3, 3, 3, 3
SETTLING_S: Final = 300.0
JOINING_AT_ONCE: Final = 20


def heartbeats(directory: Path, group_count: int, member_count: int, seconds: float) -> list[Reading]:
    """Processor time of three brokers, per second, while all groups are stable."""
    with TidelogUp(directory / "tidelog", "-Xgroup.initial.rebalance.delay.ms=1000") as up:
        return asyncio.run(_measure(up, _Crowd(group_count, member_count, up.bootstrap), seconds))


@dataclass
class _Crowd:
    """All members, and what became of them."""

    group_count: int
    member_count: int
    bootstrap: str
    stable: int = 0
    beats: int = 0
    rejoins: int = 0
    slowest_ms: float = 0.0
    joining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JOINING_AT_ONCE))

    @property
    def size(self) -> int:
        """How many there are."""
        return self.group_count * self.member_count


async def _measure(up: TidelogUp, crowd: _Crowd, seconds: float) -> list[Reading]:
    groups = [asyncio.create_task(_group(crowd, f"group-{number}")) for number in range(crowd.group_count)]
    begun_s = time.monotonic()
    while crowd.stable < crowd.size:
        if time.monotonic() - begun_s > SETTLING_S:
            raise TimeoutError(f"{crowd.stable} of {crowd.size} members are in their groups")
        for failed in (task for task in groups if task.done()):
            failed.result()
        await asyncio.sleep(0.2)
    settled_s = time.monotonic() - begun_s
    await asyncio.sleep(INTERVAL_S)
    before, beats, start_s = _cpu_seconds(up), crowd.beats, time.monotonic()
    crowd.slowest_ms = 0.0
    await asyncio.sleep(seconds)
    elapsed_s = time.monotonic() - start_s
    used = {broker_id: now - before[broker_id] for broker_id, now in _cpu_seconds(up).items()}
    beats_per_s = (crowd.beats - beats) / elapsed_s
    for task in groups:
        task.cancel()
    await asyncio.gather(*groups, return_exceptions=True)
    return [
        Reading(name="until all are stable", unit="s", value=settled_s, is_better_high=False),
        Reading(name="heartbeats", unit="1/s", value=beats_per_s),
        Reading(name="processor, all brokers", unit="cores", value=sum(used.values()) / elapsed_s),
        Reading(name="processor, busiest broker", unit="cores", value=max(used.values()) / elapsed_s),
        Reading(name="slowest heartbeat", unit="ms", value=crowd.slowest_ms),
        Reading(name="members who had to rejoin", unit="", value=crowd.rejoins),
    ]


def _cpu_seconds(up: TidelogUp) -> dict[int, float]:
    # The processes' own clocks in nanoseconds; Linux makes their numbers of the pids.
    return {broker_id: time.clock_gettime((~pid << 3) | 2) for broker_id, pid in up.pids.items()}


async def _group(crowd: _Crowd, group_id: str) -> None:
    async with crowd.joining:
        host, port = await _coordinator(crowd.bootstrap, group_id)
        members = [await AsyncConnection.open(host, port) for _ in range(crowd.member_count)]
        ids = await asyncio.gather(*(_join(crowd, connection, group_id, "") for connection in members))
    offsets = _spread(group_id, len(members))
    await asyncio.gather(
        *(
            _stay(crowd, connection, group_id, joined, delay_s)
            for connection, joined, delay_s in zip(members, ids, offsets, strict=True)
        )
    )


def _spread(group_id: str, count: int) -> Iterator[float]:
    """Members beat at different times."""
    number = int(group_id.rpartition("-")[2])
    return ((number * 7 + member * 13) % 100 / 100 * INTERVAL_S for member in range(count))


async def _coordinator(bootstrap: str, group_id: str) -> tuple[str, int]:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    connection = await AsyncConnection.open(host, int(port))
    while True:
        answer = await connection.ask(FindCoordinatorRequest(key=group_id, key_type=0), FIND_VERSION)
        if not answer.error_code:
            connection.close()
            return answer.host, answer.port
        await asyncio.sleep(0.2)


async def _join(crowd: _Crowd, connection: AsyncConnection, group_id: str, member_id: str) -> tuple[str, int]:
    """Join and sync until both succeed in the same generation."""
    while True:
        joined = await connection.ask(
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=60_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00"),),
            ),
            JOIN_VERSION,
        )
        if joined.error_code:
            member_id = "" if joined.error_code is ErrorCode.UNKNOWN_MEMBER_ID else member_id
            await asyncio.sleep(0.2)
            continue
        member_id = joined.member_id
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"\x00" * 50) for member in joined.members
        )
        synced = await connection.ask(
            SyncGroupRequest(
                group_id=group_id, generation_id=joined.generation_id, member_id=member_id, assignments=assignments
            ),
            SYNC_VERSION,
        )
        if not synced.error_code:
            crowd.stable += 1
            return member_id, joined.generation_id


async def _stay(
    crowd: _Crowd, connection: AsyncConnection, group_id: str, joined: tuple[str, int], delay_s: float
) -> None:
    member_id, generation = joined
    await asyncio.sleep(delay_s)
    while True:
        begun_s = time.monotonic()
        request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
        answer = await connection.ask(request, HEARTBEAT_VERSION)
        crowd.beats += 1
        crowd.slowest_ms = max(crowd.slowest_ms, (time.monotonic() - begun_s) * 1_000)
        if answer.error_code:
            crowd.stable -= 1
            crowd.rejoins += 1
            member_id, generation = await _join(crowd, connection, group_id, member_id)
        await asyncio.sleep(max(0.0, INTERVAL_S - (time.monotonic() - begun_s)))
