"""What groups have committed when everything is over: as their coordinators tell it, and as the records on every replica say it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.client import Admin, ClientConfig, NoPosition
from tidelog.coordinator.group.records import key_version, read_committed_offset, read_offset_key
from tidelog.coordinator.placement import partition_of
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.records import read_records
from tidelog.records.batch import BatchHeader
from tidelog.records.control import MarkerType, read_marker
from tidelog.runtime import Runtime
from tidelog.simulation.checkers.reading import batches_of
from tidelog.simulation.observer import Snapshot

if TYPE_CHECKING:  # Imports the checkers.
    from tidelog.simulation.cluster import SimulatedCluster

_INFLATED_BYTES_MAX: Final = 1 << 24
_OFFSET_KEY_VERSIONS: Final = (0, 1)


def committed_offsets(cluster: SimulatedCluster, groups: Sequence[str]) -> dict[str, dict[TopicPartition, Offset]]:
    """What a fresh admin is told. Raises NoPosition where a coordinator does not say."""

    async def ask(runtime: Runtime) -> dict[str, dict[TopicPartition, Offset]]:
        config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap})
        found: dict[str, dict[TopicPartition, Offset]] = {}
        async with Admin.connect(config, runtime) as admin:
            for group, offsets in (await admin.groups.committed_offsets(groups)).items():
                if isinstance(offsets, ErrorCode):
                    raise NoPosition(f"what {group} has committed: {offsets.name}")
                found[group] = {topic_partition: one.offset for topic_partition, one in offsets.items()}
        return found

    return cluster.tell(ask) if groups else {}


def stored_offsets(
    cluster: SimulatedCluster,
    snapshot: Snapshot,
    groups: Sequence[str],
    *,
    except_of: Container[tuple[BrokerId, TopicPartition]] = (),
) -> dict[str, dict[BrokerId, dict[TopicPartition, Offset]]]:
    """What the log of each replica of a group's partition says; nothing for a broker that has no such log, or is excepted."""
    count = sum(topic_partition.topic == GROUPS_TOPIC for topic_partition in snapshot.states)
    found: dict[str, dict[BrokerId, dict[TopicPartition, Offset]]] = {}
    for group in groups if count else ():
        place = TopicPartition(GROUPS_TOPIC, partition_of(group, count))
        for broker_id in snapshot.states[place].assignment:
            replicas = cluster.brokers[broker_id].partitions()
            partition = next((one for one in replicas if one.topic_partition == place), None)
            stored = {} if partition is None or (broker_id, place) in except_of else offsets_in(partition)
            found.setdefault(group, {})[broker_id] = {
                key[1]: offset for key, offset in stored.items() if key[0] == group
            }
    return found


def offsets_in(partition: Partition) -> dict[tuple[str, TopicPartition], Offset]:
    """What is left when all records of a replica's log are read from the first to the last."""
    stored = _Stored()
    for header, batch in batches_of(partition.log):
        stored.replay(header, batch)
    return {place: offset for place, (_, offset) in stored.found.items() if offset is not None}


class _Stored:
    """Offsets by place, each with where its record lies. What was committed in a transaction counts when that was committed."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, TopicPartition], tuple[Offset, Offset | None]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], tuple[Offset, Offset | None]]] = {}

    def replay(self, header: BatchHeader, batch: bytes) -> None:
        """One more batch."""
        if header.is_control:
            pending = self._pending.pop(header.producer_id, {})
            if read_marker(batch).type is MarkerType.COMMIT:
                for place, (at, offset) in pending.items():
                    if at > self.found.get(place, (-1, None))[0]:
                        self.found[place] = (at, offset)
        elif header.is_transactional:
            self._pending.setdefault(header.producer_id, {}).update(_offsets(batch))
        else:
            self.found.update(_offsets(batch))


def _offsets(batch: bytes) -> dict[tuple[str, TopicPartition], tuple[Offset, Offset | None]]:
    """What a batch says of offsets, None where one was deleted."""
    found: dict[tuple[str, TopicPartition], tuple[Offset, Offset | None]] = {}
    for record in read_records(batch, max_bytes=_INFLATED_BYTES_MAX):
        if record.key is None or key_version(record.key) not in _OFFSET_KEY_VERSIONS:
            continue
        key = read_offset_key(record.key)
        offset = None if record.value is None else read_committed_offset(record.value).offset
        found[key.group_id, TopicPartition(key.topic, key.partition)] = (record.offset, offset)
    return found
