"""Record batches as bytes: header view, records, builder, control markers, compression, produce validation. Pure."""

from tidelog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    ExpandsTooFar,
    crc_holds,
    headers,
    read_header,
    sequence_after,
    stamp,
    stamp_append_time,
)
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.compression import Codec, compress, decompress
from tidelog.records.control import Marker, MarkerType, build_marker, read_marker
from tidelog.records.record import Record, RecordHeader, read_records
from tidelog.records.validation import (
    InvalidRecords,
    ProduceRules,
    RecordError,
    Validated,
    is_laborious,
    is_small,
    validate_produced,
)

__all__ = [
    "HEADER_SIZE",
    "BatchHeader",
    "Codec",
    "CorruptBatch",
    "ExpandsTooFar",
    "InvalidRecords",
    "Marker",
    "MarkerType",
    "ProduceRules",
    "Record",
    "RecordBatchBuilder",
    "RecordError",
    "RecordHeader",
    "Validated",
    "build_marker",
    "compress",
    "crc_holds",
    "decompress",
    "headers",
    "is_laborious",
    "is_small",
    "read_header",
    "read_marker",
    "read_records",
    "sequence_after",
    "stamp",
    "stamp_append_time",
    "validate_produced",
]
