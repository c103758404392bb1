"""What the tests of replication share: replicas on simulated disks, and a fetch round between two of them."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.config import LogConfig
from tidelog.config.replication import LEADER_EPOCH
from tidelog.model import Acks, ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.partition import (
    FollowerFetch,
    FollowerRead,
    IsrChangeWanted,
    IsrProposal,
    Leadership,
    Partition,
    PartitionEvent,
    ReplicationRules,
)
from tidelog.records import RecordBatchBuilder, headers
from tidelog.records.record import read_records
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import Opening, PartitionLog

NOW = 1_700_000_000_000
LAG_MS = 1000


def replica(
    broker_id: BrokerId,
    config: LogConfig | None = None,
    *,
    truncation: str = LEADER_EPOCH,
    is_eligible: Callable[[BrokerId], bool] = lambda _: True,
    log: PartitionLog | None = None,
    disk: SimulatedDisk | None = None,
    high_watermark: int = 0,
) -> Partition:
    """A replica with an empty log of its own, unless it is given one."""
    if log is None:
        disk = disk or SimulatedDisk()
        log = PartitionLog.open(
            disk, "/t-0", TopicPartition("t", 0), config or LogConfig(), now_ms=NOW, opening=Opening()
        )
    rules = ReplicationRules(lag_time_max_ms=LAG_MS, truncation=truncation)
    return Partition(broker_id, log, high_watermark=high_watermark, rules=rules, is_eligible=is_eligible)


def led_by(
    leader: BrokerId,
    epoch: int = 0,
    isr: tuple[BrokerId, ...] = (1, 2, 3),
    *,
    version: int | None = None,
    assignment: tuple[BrokerId, ...] = (1, 2, 3),
) -> Leadership:
    """A state of the partition; its partition epoch is ten times the leader epoch unless given."""
    partition_epoch = 10 * epoch if version is None else version
    return Leadership(
        leader=leader, leader_epoch=epoch, partition_epoch=partition_epoch, isr=isr, assignment=assignment
    )


def elect(
    leader: Partition, *followers: Partition, epoch: int, isr: tuple[BrokerId, ...] = (1, 2, 3), at_ms: float = 0.0
) -> None:
    """Tell everybody."""
    broker_id = leader.broker_id
    leader.become_leader(led_by(broker_id, epoch, isr), monotonic_ms=at_ms)
    for follower in followers:
        follower.become_follower(led_by(broker_id, epoch, isr), now_ms=NOW)


def batch(*values: str) -> bytearray:
    """A producer's batch."""
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(timestamp_ms=NOW, key=None, value=value.encode())
    return builder.build()


def produce(leader: Partition, *values: str, acks: Acks = Acks.LEADER) -> list[PartitionEvent]:
    """Append each value as a batch of its own."""
    events: list[PartitionEvent] = []
    for value in values:
        events += leader.append_as_leader(batch(value), acks=acks, produce_version=9, now_ms=NOW)[1]
    return events


def fetch(
    follower: BrokerId, offset: int, *, epoch: int = 0, last: int = -1, start: int = 0, incarnation: int = 100
) -> FollowerFetch:
    """What a follower sends."""
    return FollowerFetch(
        replica_id=follower,
        broker_epoch=incarnation,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last,
        log_start_offset=start,
    )


def take(
    leader: Partition, sent: FollowerFetch, *, at_ms: float = 0.0, max_bytes: int = 1 << 20, is_again: bool = False
) -> tuple[FollowerRead, list[PartitionEvent]]:
    """The leader's side of a fetch."""
    return leader.read_for_follower(sent, max_bytes=max_bytes, at_least_one=True, monotonic_ms=at_ms, is_again=is_again)


def refused(call: Callable[[], object]) -> ErrorCode:
    """The code of the ApiError that a call raises."""
    try:
        call()
    except ApiError as error:
        return error.code
    raise AssertionError("nothing was refused")


def fetch_of(follower: Partition, incarnation: int = 100) -> FollowerFetch:
    """What this follower would send now."""
    position = follower.fetch_position()
    assert position is not None
    return fetch(
        follower.broker_id,
        position.fetch_offset,
        epoch=position.leader_epoch,
        last=position.last_fetched_epoch,
        start=position.log_start_offset,
        incarnation=incarnation,
    )


def apply(follower: Partition, read: FollowerRead) -> list[PartitionEvent]:
    """The follower's side of an answer."""
    if read.diverging is not None:
        return follower.truncate_where_parted(read.diverging, leader_log_start_offset=read.log_start_offset, now_ms=NOW)
    return follower.append_as_follower(
        read.records,
        leader_high_watermark=read.high_watermark,
        leader_log_start_offset=read.log_start_offset,
        now_ms=NOW,
    )


def replicate(
    leader: Partition, follower: Partition, *, at_ms: float = 0.0
) -> tuple[FollowerRead, list[PartitionEvent]]:
    """One whole fetch; what was answered, and the leader's events."""
    read, events = take(leader, fetch_of(follower), at_ms=at_ms)
    apply(follower, read)
    return read, events


def catch_up(leader: Partition, *followers: Partition, at_ms: float = 0.0) -> None:
    """Fetch until everybody has everything, and knows that it is committed."""
    for _ in range(8):
        for follower in followers:
            replicate(leader, follower, at_ms=at_ms)


def values(of: Partition | PartitionLog, end_offset: int | None = None) -> dict[int, str]:
    """Every readable record by its offset."""
    log = of if isinstance(of, PartitionLog) else of.log
    end = log.log_end_offset if end_offset is None else end_offset
    found: dict[int, str] = {}
    position = log.log_start_offset
    while position < end:
        data = log.read(position, max_bytes=1 << 20, end_offset=end)
        if not data:
            break
        for at, header in headers(data):
            records = read_records(data[at : at + header.size], max_bytes=1 << 20)
            found |= {record.offset: (record.value or b"").decode() for record in records}
            position = header.next_offset
    return {offset: value for offset, value in found.items() if log.log_start_offset <= offset < end}


def wanted(events: list[PartitionEvent]) -> list[IsrProposal]:
    """The ISR changes among events."""
    return [event.proposal for event in events if isinstance(event, IsrChangeWanted)]


def members(events: list[PartitionEvent]) -> list[tuple[BrokerId, ...]]:
    """The ISRs asked for, without broker epochs."""
    return [tuple(broker_id for broker_id, _ in proposal.isr) for proposal in wanted(events)]
