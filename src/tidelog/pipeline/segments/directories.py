"""Data directories of brokers, Tidelog's or Apache Kafka's, and the segment files in them. Nothing is opened but `meta.properties`.

Several directories of one broker (`log.dirs`) are one replica: `meta.properties` says whose each is. Where it is missing, the directory's
own path is the replica's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.model import Offset, TopicPartition
from tidelog.storage.checkpoints import DamagedCheckpoint, decode_meta_properties
from tidelog.storage.names import LOG, META_PROPERTIES, OFFSET_INDEX, parse_file_name, parse_partition_directory

_PARTITION_FILES: Final = ("leader-epoch-checkpoint", "partition.metadata")


class DirectoryRefused(Exception):
    """A directory cannot be read as one of a broker; the message names it and says what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """One log directory of one broker."""

    path: str
    replica: str
    broker: int | None
    cluster_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A `.log` file as long as it was when it was listed."""

    base_offset: Offset
    path: str
    size: int

    @property
    def name(self) -> str:
        """Without its directory."""
        return os.path.basename(self.path)

    @property
    def index_path(self) -> str:
        """Its offset index, which need not be there."""
        return self.path.removesuffix(LOG) + OFFSET_INDEX


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The log of one partition in one directory. Segments are in the order of their offsets."""

    directory: DataDirectory
    topic_partition: TopicPartition
    segments: tuple[SegmentFile, ...]
    unfinished: tuple[str, ...] = ()
    """Names of `.log` files that a compaction or a deletion has left: `.cleaned`, `.swap`, `.deleted`."""

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{self.directory.path}/{self.topic_partition}"


def data_directories(paths: Sequence[str]) -> list[DataDirectory]:
    """The directories, those of the brokers below where a path is only their parent. Raises DirectoryRefused."""
    found = [_described(path) for given in paths for path in _expanded(given)]
    _check_once(found)
    _check_one_cluster(found)
    return found


def partitions_in(directory: DataDirectory, topics: Iterable[str] | None = None) -> list[PartitionFiles]:
    """The logs in a directory, of all topics or of some. Directories of deleted, stray and future replicas are none."""
    wanted = None if topics is None else frozenset(topics)
    found = []
    for entry in _entries(directory.path):
        partition = parse_partition_directory(entry.name)
        if partition is not None and entry.is_dir() and (wanted is None or partition.topic in wanted):
            found.append(_partition(directory, partition, entry.path))
    return sorted(found, key=lambda files: files.topic_partition)


def check_one_log_each(partitions: Iterable[PartitionFiles]) -> None:
    """A broker has a partition once, whatever its number of directories. Raises DirectoryRefused."""
    seen: dict[tuple[str, TopicPartition], PartitionFiles] = {}
    for files in partitions:
        first = seen.setdefault((files.directory.replica, files.topic_partition), files)
        if first is not files:
            raise DirectoryRefused(
                f"{first.directory.path} and {files.directory.path} both say that they belong to broker {files.directory.replica}, "
                f"and both hold {files.topic_partition}: one is a copy of the other, or of another time; give one of them"
            )


def _expanded(given: str) -> Iterator[str]:
    path = os.path.abspath(given)
    if not os.path.isdir(path):
        what = "is a file" if os.path.exists(path) else "there is no such directory"
        raise DirectoryRefused(f"{given}: {what}; give the data directory of a broker, as in its log.dirs")
    if _is_data_directory(path):
        yield path
        return
    below = [entry.path for entry in _entries(path) if entry.is_dir() and _is_data_directory(entry.path)]
    if not below:
        raise DirectoryRefused(_refusal(given, path))
    yield from below


def _is_data_directory(path: str) -> bool:
    if os.path.exists(f"{path}/{META_PROPERTIES}"):
        return True
    entries = [entry for entry in _entries(path) if entry.is_dir() and parse_partition_directory(entry.name)]
    return any(_is_partition_directory(entry.path) for entry in entries)


def _is_partition_directory(path: str) -> bool:
    return any(
        entry.name in _PARTITION_FILES or parse_file_name(entry.name) is not None
        for entry in _entries(path)
        if entry.is_file()
    )


def _refusal(given: str, path: str) -> str:
    if _is_partition_directory(path):
        return f"{given}: this is the log of one partition; give the data directory it lies in, {Path(path).parent}"
    return (
        f"{given}: no data directory: there is neither meta.properties nor the log of a partition in it, nor in a directory below; "
        "give what log.dirs of a broker names"
    )


def _described(path: str) -> DataDirectory:
    try:
        content = Path(path, META_PROPERTIES).read_bytes()
        meta = decode_meta_properties(content)
    except FileNotFoundError:
        return DataDirectory(path=path, replica=path, broker=None, cluster_id=None)
    except DamagedCheckpoint as error:
        raise DirectoryRefused(f"{path}/{META_PROPERTIES}: {error}") from None
    except OSError as error:
        raise DirectoryRefused(f"{path}/{META_PROPERTIES}: {error.strerror}") from None
    replica = path if meta.broker_id is None else str(meta.broker_id)
    return DataDirectory(path=path, replica=replica, broker=meta.broker_id, cluster_id=meta.cluster_id)


def _check_once(found: Sequence[DataDirectory]) -> None:
    seen: set[str] = set()
    for directory in found:
        real = os.path.realpath(directory.path)
        if real in seen:
            raise DirectoryRefused(f"{directory.path}: given twice; a replica always agrees with itself")
        seen.add(real)


def _check_one_cluster(found: Sequence[DataDirectory]) -> None:
    named = [directory for directory in found if directory.cluster_id is not None]
    for directory in named:
        if directory.cluster_id != named[0].cluster_id:
            raise DirectoryRefused(
                f"{directory.path} belongs to cluster {directory.cluster_id}, {named[0].path} to {named[0].cluster_id}: "
                "give directories of one cluster"
            )


def _partition(directory: DataDirectory, partition: TopicPartition, path: str) -> PartitionFiles:
    segments, unfinished = [], []
    for entry in _entries(path):
        parsed = parse_file_name(entry.name)
        if parsed is None or parsed[1] != LOG:
            continue
        if parsed[2]:
            unfinished.append(entry.name)
            continue
        try:
            size = entry.stat().st_size
        except FileNotFoundError:  # between the listing and now
            continue
        segments.append(SegmentFile(base_offset=parsed[0], path=entry.path, size=size))
    segments.sort(key=lambda segment: segment.base_offset)
    return PartitionFiles(
        directory=directory,
        topic_partition=partition,
        segments=tuple(segments),
        unfinished=tuple(sorted(unfinished)),
    )


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []  # between the listing and now
    except OSError as error:
        raise DirectoryRefused(f"{path}: {error.strerror}") from None
