"""The columns of the format "tidelog-segments": what a record batch says of itself in its header, where it lies, and whether it is sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.source.columns import Schema

TYPES: Final = {
    "replica": "string",  # the broker id, or the directory where nothing says whose it is
    "broker": "int",
    "directory": "string",
    "topic": "string",
    "partition": "int",
    "segment": "string",  # the file's name
    "segment_base_offset": "bigint",
    "position": "bigint",  # of the batch in the file
    "size": "bigint",
    "base_offset": "bigint",
    "last_offset": "bigint",
    "leader_epoch": "int",
    "crc": "bigint",  # as the header has it
    "crc_ok": "boolean",
    "digest": "bigint",  # of all bytes, also those that the checksum does not cover
    "record_count": "int",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "base_sequence": "int",
    "is_transactional": "boolean",
    "control_type": "string",  # null for data
    "has_delete_horizon": "boolean",
    "base_timestamp": "timestamp",
    "max_timestamp": "timestamp",
    "codec": "string",
    "reason": "string",  # why the bytes here are no batch; then all that a batch would say is null
}
"""As Spark writes its types."""


def as_ddl(columns: Sequence[str] = tuple(TYPES)) -> str:
    """The schema of these columns in SQL."""
    return ", ".join(f"{name} {TYPES[name]}" for name in columns)


def columns_of(schema: Schema) -> tuple[str, ...]:
    """The columns of a schema that the user, or `as_ddl`, has given. Raises OptionRefused for one that there is not."""
    for field in schema.fields:
        ours = TYPES.get(field.name)
        if ours is None:
            raise OptionRefused("schema", f"there is no column {field.name!r}; there are {', '.join(TYPES)}")
        if field.dataType.simpleString() != ours:
            raise OptionRefused("schema", f"column {field.name} is {ours}, not {field.dataType.simpleString()}")
        if not field.nullable:
            raise OptionRefused("schema", f"column {field.name} may be null: leave out NOT NULL")
    names = tuple(field.name for field in schema.fields)
    if not names or len(set(names)) != len(names):
        raise OptionRefused("schema", f"it must have one column or several, each once, of {', '.join(TYPES)}")
    return names
