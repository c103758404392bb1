"""The columns of a record, by the names and types of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""All of them, in the order in which the official source has them; `headers` is the one it leaves out unless asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to make of a partition: which columns, of the records from one offset up to another."""

    columns: tuple[str, ...]
    """In the order wanted; none at all is fine, for those who only count."""
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    """Exclusive."""
    skips_aborted: bool

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown:
            raise ValueError(f"no column {unknown[0]!r}: a record has {', '.join(COLUMNS)}")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError(f"a column is wanted twice: {', '.join(self.columns)}")


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of decoded batches: what Spark makes of the official source's columns, with times in UTC."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    return pa.schema([(name, types[name]) for name in columns])
