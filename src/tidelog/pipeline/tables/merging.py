"""Fewer files: where the tasks of a micro-batch leave more than files.max, the driver puts small ones of one partition together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tidelog.pipeline.sink.errors import StagingFailed
from tidelog.pipeline.tables.files import DataFile, FileWriter, read_rows
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.partitioning import Values

_NAME: Final = "merged"


@dataclass(slots=True)
class _Heap:
    """Files of one partition that make one file."""

    values: Values
    files: list[DataFile] = field(default_factory=list)
    size_bytes: int = 0


def merged_files(files: Sequence[DataFile], directory: Path, settings: TableSettings) -> tuple[DataFile, ...]:
    """At most files.max files with the same rows, or as many as there are partitions, and files of the wanted size, if that is more.

    Rows pass through the driver a row group at a time.
    """
    if len(files) <= settings.files_max:
        return tuple(files)
    count = len(files)
    merged: list[DataFile] = []
    for heap in _heaps(files, settings.file_bytes):
        if count > settings.files_max and len(heap.files) > 1:
            count -= len(heap.files) - 1
            merged.append(_merged(heap, directory, settings))
        else:
            merged += heap.files
    return tuple(merged)


def _heaps(files: Sequence[DataFile], file_bytes: int) -> list[_Heap]:
    """Small files with small ones, in every partition; the heaps of most files first."""
    heaps: dict[Values, list[_Heap]] = defaultdict(list)
    for file in sorted(files, key=lambda each: each.size_bytes):
        of_partition = heaps[file.values]
        if not of_partition or of_partition[-1].size_bytes + file.size_bytes > file_bytes:
            of_partition.append(_Heap(file.values))
        of_partition[-1].files.append(file)
        of_partition[-1].size_bytes += file.size_bytes
    found = [heap for of_partition in heaps.values() for heap in of_partition]
    return sorted(found, key=lambda heap: len(heap.files), reverse=True)


def _merged(heap: _Heap, directory: Path, settings: TableSettings) -> DataFile:
    from pyarrow.parquet import read_schema

    schema = read_schema(heap.files[0].path)
    # The columns of the partition are not in the files, or stay in them: either way nothing is to be divided again.
    whole = replace(settings, file_bytes=2**62)
    writer = FileWriter(directory, _NAME, schema, whole, ())
    try:
        for batch in read_rows(heap.files):
            writer.append(batch)
        (made,) = writer.finish()
    except (OSError, StagingFailed):
        writer.discard()
        raise
    return replace(made, values=heap.values)
