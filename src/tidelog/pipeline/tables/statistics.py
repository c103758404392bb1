"""What a Parquet file says of its columns, in the words of Delta's log, so that readers may pass files over."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

_ORDERED = (int, datetime.date)
"""Whose least and greatest values mean the same to everybody: texts may be cut short, and floats may be NaN."""


def file_statistics(metadata: FileMetaData) -> str:
    """The number of rows, and of columns with whole numbers or dates the least and the greatest value."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        known = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if "." in name or not all(each is not None and each.has_null_count for each in known):
            continue
        nulls[name] = sum(each.null_count for each in known)
        bounds = [(each.min, each.max) for each in known if each.has_min_max]
        if len(bounds) == len(known) and all(_is_ordered(low) for low, _ in bounds):
            least[name] = _plain(min(low for low, _ in bounds))
            greatest[name] = _plain(max(high for _, high in bounds))
    told = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(told)


def _is_ordered(value: Any) -> bool:
    return isinstance(value, _ORDERED) and not isinstance(value, bool | datetime.datetime)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value
