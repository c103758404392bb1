"""The verdict over a cluster that went through faults, read from the files and the logs that its brokers left behind."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster.load import Load
from tidelog.storage.dump import BatchRow, EpochRow, dump_epochs, dump_log
from tidelog.storage.names import LEADER_EPOCH_CHECKPOINT

_BECAME_LEADER: Final = re.compile(r" became leader partition=(?P<partition>\S+) leader_epoch=(?P<epoch>\d+) ")


@dataclass(slots=True)
class ReplicaFiles:
    """What the files of one replica hold."""

    content: bytes = b""
    values: dict[int, bytes | None] = field(default_factory=dict)  # by offset
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)  # id and epoch by offset
    batch_epochs: dict[int, int] = field(default_factory=dict)  # first offset by epoch, as the batches have it
    known_epochs: dict[int, int] = field(default_factory=dict)  # and as the checkpoint has it


def read_replica(directory: Path) -> ReplicaFiles:
    """Every byte and every record of a replica whose broker has stopped; damage is a failure."""
    found = ReplicaFiles()
    for segment in sorted(directory.glob("*.log")):
        content = segment.read_bytes()
        found.content += content
        for row in dump_log(content, with_records=True):
            assert isinstance(row, BatchRow), f"{segment}: {row}"
            assert row.problem is None, f"{segment}: {row.problem}"
            found.batch_epochs.setdefault(row.header.leader_epoch, row.header.base_offset)
            for each in row.records or ():
                assert each.record.offset not in found.values, f"{segment}: offset {each.record.offset} twice"
                found.values[each.record.offset] = each.record.value
                found.producers[each.record.offset] = (row.header.producer_id, row.header.producer_epoch)
    for epoch in dump_epochs((directory / LEADER_EPOCH_CHECKPOINT).read_bytes()):
        assert isinstance(epoch, EpochRow), epoch
        found.known_epochs[epoch.entry.leader_epoch] = epoch.entry.start_offset
    return found


def check_promises(load: Load, partition: int, replicas: dict[int, ReplicaFiles]) -> None:
    """Each acknowledged record is at its offset on every replica, nothing else is, and all replicas are byte-equal."""
    first_id, *others = sorted(replicas)
    promised = list(load.acknowledged(partition))
    assert sum(1 for offset, _ in promised if offset is None) < len(promised) / 20, "too many promises without a place"
    for broker_id, files in replicas.items():
        where = f"partition {partition} on broker {broker_id}"
        missing = [
            (offset, value) for offset, value in promised if offset is not None and files.values.get(offset) != value
        ]
        assert not missing, f"{where}: {len(missing)} acknowledged records are not at their offsets: {missing[:5]}"
        counts = Counter(files.values.values())
        _check_nothing_twice(where, files, is_once_in_all=not load.numbers_anew)
        absent = [value for _, value in promised if value not in counts]
        assert not absent, f"{where}: {len(absent)} acknowledged values are nowhere: {absent[:5]}"
        assert len(counts) == len(promised), (
            f"{where}: {len(counts)} records, of which {len(promised)} were acknowledged"
        )
        assert sorted(files.values) == list(range(len(files.values))), f"{where}: offsets have holes"
        assert files.batch_epochs.items() <= files.known_epochs.items(), f"{where}: batches of epochs nobody knows"
    for broker_id in others:
        assert replicas[broker_id].content == replicas[first_id].content, (
            f"partition {partition}: the files of brokers {first_id} and {broker_id} differ"
        )


def _check_nothing_twice(where: str, files: ReplicaFiles, *, is_once_in_all: bool) -> None:
    """No value is there twice or, where the client may number anew, twice in one epoch of the client."""
    counts = Counter(
        (value, None if is_once_in_all else files.producers[offset]) for offset, value in files.values.items()
    )
    twice = [value for (value, _), count in counts.items() if count > 1]
    assert not twice, f"{where}: {len(twice)} values are there more than once: {twice[:5]}"


def leaders_by_epoch(transcripts: dict[int, Path]) -> dict[tuple[str, int], set[int]]:
    """Which brokers ever said that they lead a partition in an epoch."""
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for broker_id, path in transcripts.items():
        for match in _matches(path):
            found[match["partition"], int(match["epoch"])].add(broker_id)
    return dict(found)


def check_one_leader_per_epoch(leaders: dict[tuple[str, int], set[int]], partitions: Iterable[str]) -> None:
    """No epoch of a partition had two leaders, and every partition had one."""
    twice = {place: brokers for place, brokers in leaders.items() if len(brokers) > 1}
    assert not twice, f"epochs with more than one leader: {twice}"
    assert {partition for partition, _ in leaders} >= set(partitions)


def _matches(path: Path) -> Iterator[re.Match[str]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if match := _BECAME_LEADER.search(line):
                yield match
