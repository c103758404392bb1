"""Look into the files of a log, Tidelog's or Apache Kafka's: segments, indexes, producer snapshots, checkpoints."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed
from tidelog.cli.output import OutputFormat
from tidelog.cli.shown_record import json_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.storage.dump import Fact, RecordRow, Row

_EXAMPLES: Final = """examples:
  tidelog log dump tidelog-data/broker-1/orders-0/*.log
  tidelog log dump --records 00000000000000000000.log      each record of each batch
  tidelog log dump 00000000000000000000.index               held against the segment beside it
  tidelog log dump --format json *.snapshot | jq .          one object per line

exits with 1 when a file is damaged; what is wrong stands where it is wrong
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog log` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    dump = verbs.add_parser("dump", help="describe files row by row", epilog=_EXAMPLES)
    dump.add_argument("files", nargs="+", metavar="FILE")
    dump.add_argument("--records", action="store_true", help="also the records inside the batches of a segment")
    add_format_argument(dump)
    dump.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Describe every file; the exit code says whether all of them are sound."""
    is_sound = True
    for name in options.files:
        is_sound &= _dump(name, OutputFormat(options.format), with_records=options.records)
    return EXIT_OK if is_sound else EXIT_FAILED


def _dump(name: str, output_format: OutputFormat, *, with_records: bool) -> bool:
    """Describe one file; whether it is sound. Raises CommandFailed when it cannot be read at all."""
    from tidelog.storage.dump import dump_file

    path = Path(name)
    segment = path.with_suffix(".log")
    log = _mapped(segment) if path.suffix in {".index", ".timeindex"} and segment.exists() else None
    write = _write_json if output_format is OutputFormat.JSON else _write_text
    if output_format is OutputFormat.TABLE:
        sys.stdout.write(f"Dumping {name}\n")
    is_sound = True
    for row in dump_file(path.name, _mapped(path), log=log, with_records=with_records):
        is_sound &= row.problem is None
        write(name, row)
    return is_sound


def _mapped(path: Path) -> memoryview:
    """A file's content, read as it is looked at: a segment may be larger than we would like to hold. Raises CommandFailed."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror}") from None


def _write_text(_name: str, row: Row) -> None:
    problem = "" if row.problem is None else f" PROBLEM: {row.problem}"
    sys.stdout.write(f"{_words(row.facts())}{problem}\n")
    for each in _records(row):
        key, payload = (_readable(part) for part in (each.record.key, each.record.value))
        sys.stdout.write(f"| {_words(each.facts())} key: {key} payload: {payload}\n")


def _write_json(name: str, row: Row) -> None:
    content: dict[str, object] = {"file": name, **row.facts(), "problem": row.problem}
    if records := _records(row):
        content["records"] = [
            {**each.facts(), **json_bytes("key", each.record.key), **json_bytes("payload", each.record.value)}
            for each in records
        ]
    sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")


def _records(row: Row) -> tuple[RecordRow, ...]:
    return getattr(row, "records", None) or ()


def _words(facts: Mapping[str, Fact]) -> str:
    """`name: value` pairs, spelled as Kafka's tool spells them."""
    return " ".join(f"{name}: {_word(value)}" for name, value in facts.items())


def _word(value: Fact) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _readable(data: bytes | None) -> str:
    """Text as text, on one line; other bytes escaped."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    return text if text.isprintable() else repr(text)
