"""Replacing segments by compacted ones, so that after a crash at any point the log holds exactly the old or exactly the new content.

The cleaner writes complete `.cleaned` files and makes them durable. Then, here:

1. A manifest naming the new and the replaced segments is written durably. This is the moment of truth: before it recovery rolls back,
   after it recovery goes forward.
2. `.cleaned` becomes `.swap`, the last segment first, as Kafka does it, whose own recovery therefore understands the directory too.
3. The replaced files become `.deleted`.
4. `.swap` loses its suffix, and once all names are durable the manifest goes.

Directories that Kafka left in the middle of a swap have no manifest; for them its rules hold (KAFKA-6264): a `.swap` at or above the
lowest `.cleaned` is rolled back, any other is completed and takes the place of the segments in its offset range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.model import Offset
from tidelog.records.batch import CorruptBatch
from tidelog.runtime import Disk, FileMissing
from tidelog.storage.names import (
    CLEANED,
    DELETED,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    TRANSACTION_INDEX,
    file_name,
    parse_file_name,
)
from tidelog.storage.scan import scan_headers

MANIFEST: Final = "segment-swap-manifest"


def commit_swap(disk: Disk, directory: str, *, cleaned: Sequence[Offset], replaced: Sequence[Offset]) -> None:
    """Steps 1 and 2: from here on the new content is the log's."""
    for base in cleaned:
        _create_if_missing(disk, _path(directory, base, TRANSACTION_INDEX + CLEANED))
    disk.fsync_dir(directory)
    disk.replace(f"{directory}/{MANIFEST}", _encode(cleaned, replaced))
    for base in sorted(cleaned, reverse=True):
        for suffix in SEGMENT_SUFFIXES:
            _rename_if_there(disk, _path(directory, base, suffix + CLEANED), _path(directory, base, suffix + SWAP))


def finish_swap(disk: Disk, directory: str, *, cleaned: Sequence[Offset]) -> None:
    """Step 4, after the replaced files are out of the way."""
    for base in sorted(cleaned):
        for suffix in SEGMENT_SUFFIXES:
            final = _path(directory, base, suffix)
            _rename_if_there(disk, final + CLEANED, final)
            _rename_if_there(disk, final + SWAP, final)
    disk.fsync_dir(directory)
    disk.unlink(f"{directory}/{MANIFEST}")
    disk.fsync_dir(
        directory
    )  # A manifest that came back would delete segments that took the names of the replaced ones.


def discard_cleaned(disk: Disk, directory: str) -> None:
    """Remove what a compaction wrote that is not to be swapped in. A log that is gone meanwhile is fine."""
    try:
        for name in disk.listdir(directory):
            if name.endswith(CLEANED):
                disk.unlink(f"{directory}/{name}")
    except FileMissing:
        return


def resolve_interrupted_swaps(disk: Disk, directory: str) -> bool:
    """Make a directory hold segments and nothing half done; whether anything changed. Doing it twice is doing it once."""
    manifest = _read_manifest(disk, directory)
    if manifest is not None:
        cleaned, replaced = manifest
        for base in replaced:
            if base not in cleaned:
                _unlink_segment(disk, directory, base)
        finish_swap(disk, directory, cleaned=cleaned)
    elif swaps := _left_by_kafka(disk, directory):
        _complete_as_kafka(disk, directory, swaps)
        disk.fsync_dir(directory)
    removed = _remove_leftovers(disk, directory)
    return removed or manifest is not None


def _left_by_kafka(disk: Disk, directory: str) -> list[Offset]:
    """Base offsets of swaps to be completed; those to be rolled back lose their log file here, the rest of them goes with the leftovers."""
    parsed = [found for name in disk.listdir(directory) if (found := parse_file_name(name)) is not None]
    cleaned = [base for base, _, state in parsed if state == CLEANED]
    swaps = sorted({base for base, kind, state in parsed if state == SWAP and kind == LOG})
    if not cleaned:
        return swaps
    return [base for base in swaps if base < min(cleaned)]


def _complete_as_kafka(disk: Disk, directory: str, swaps: list[Offset]) -> None:
    end_offset = max(_end_offset(disk, _path(directory, base, LOG + SWAP), base) for base in swaps)
    for name in disk.listdir(directory):
        found = parse_file_name(name)
        if found is not None and found[1] in SEGMENT_SUFFIXES and found[2] == "" and swaps[0] <= found[0] < end_offset:
            # Of a base that is swapped in, indexes may have been renamed already; without them they are rebuilt.
            has_swap = disk.exists(_path(directory, found[0], LOG + SWAP))
            if has_swap or found[0] not in swaps:
                disk.unlink(f"{directory}/{name}")
    for base in swaps:
        for suffix in (*SEGMENT_SUFFIXES[1:], LOG):
            _rename_if_there(disk, _path(directory, base, suffix + SWAP), _path(directory, base, suffix))


def _end_offset(disk: Disk, path: str, base: Offset) -> Offset:
    file = disk.open(path)
    end_offset = base + 1
    try:
        for _, header in scan_headers(file, 0, file.size()):
            end_offset = header.next_offset
    except CorruptBatch:
        return end_offset
    finally:
        file.close()
    return end_offset


def _remove_leftovers(disk: Disk, directory: str) -> bool:
    names = [name for name in disk.listdir(directory) if name.endswith((CLEANED, SWAP, DELETED))]
    for name in names:
        disk.unlink(f"{directory}/{name}")
    if names:
        disk.fsync_dir(directory)
    return bool(names)


def _read_manifest(disk: Disk, directory: str) -> tuple[list[Offset], list[Offset]] | None:
    try:
        lines = disk.read(f"{directory}/{MANIFEST}").decode().splitlines()
    except FileMissing:
        return None
    return [int(word) for word in lines[0].split()[1:]], [int(word) for word in lines[1].split()[1:]]


def _encode(cleaned: Sequence[Offset], replaced: Sequence[Offset]) -> bytes:
    words = [" ".join(["cleaned", *map(str, cleaned)]), " ".join(["replaced", *map(str, replaced)]), ""]
    return "\n".join(words).encode()


def _path(directory: str, base: Offset, suffix: str) -> str:
    return f"{directory}/{file_name(base, suffix)}"


def _unlink_segment(disk: Disk, directory: str, base: Offset) -> None:
    for suffix in SEGMENT_SUFFIXES:
        path = _path(directory, base, suffix)
        if disk.exists(path):
            disk.unlink(path)


def _rename_if_there(disk: Disk, source: str, target: str) -> None:
    if disk.exists(source):
        disk.rename(source, target)


def _create_if_missing(disk: Disk, path: str) -> None:
    if not disk.exists(path):
        file = disk.open(path, create=True)
        file.fsync()
        file.close()
