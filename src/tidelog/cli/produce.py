"""Send records to a topic: a line of input each, a file each, or JSON as `tidelog consume -J` prints it.

Exits with 0 when every record was acknowledged, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from tidelog.cli.arguments import (
    add_connection_arguments,
    add_quiet_argument,
    checked,
    client_properties,
    escaped_bytes,
    key_value,
    whole_number,
)
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.read_records import RECORD_MAX_BYTES, InputRecord, InputRules, Splitter, Unreadable

if TYPE_CHECKING:
    import asyncio

    from tidelog.cli.progress import Progress
    from tidelog.client import Producer, RecordMetadata
    from tidelog.runtime import Runtime

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
FAILURES_SHOWN: Final = 5
_QUICK_S: Final = 0.5  # who has to wait longer is told so

_EXAMPLES: Final = r"""examples:
  echo hello | tidelog produce -t greetings
  tidelog produce -t users -K : -l users.txt            lines like  42:Ada
  echo 42: | tidelog produce -t users -K : -Z           a tombstone: key 42, null value
  tidelog produce -t images -H type=png cat.png dog.png one record per file
  tidelog consume -t a -J -e | tidelog produce -t b -J  copy, with keys, headers and timestamps
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog produce`."""
    parser.epilog = _EXAMPLES
    add_connection_arguments(parser)
    parser.add_argument(
        "-t", "--topic", required=True, metavar="TOPIC", help="where to; made by the broker if it is set to"
    )
    parser.add_argument(
        "-p", "--partition", type=whole_number(low=0, high=2**31 - 1, what="a partition"),
        help="send to this partition (default: by key, or whichever is convenient)",
    )  # fmt: skip
    _add_record_arguments(parser)
    parser.add_argument("-Z", "--null", action="store_true", help="send empty keys and values as null")
    parser.add_argument(
        "-J", "--json", action="store_true", help="each line is a JSON object, as `tidelog consume -J` prints"
    )
    parser.add_argument("-z", "--compression", choices=CODECS, help="codec of the batches (default: none)")
    parser.add_argument(
        "--acks", choices=("all", "1", "0"), help="who must hold a record before it counts (default: all)"
    )
    parser.add_argument(
        "-c", "--count", type=whole_number(low=1, high=2**63 - 1, what="a count"), help="stop after so many records"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print where each record ended up: TOPIC-PARTITION@OFFSET"
    )
    add_quiet_argument(parser)
    parser.add_argument(
        "-l", "--lines", action="store_true", help="the files hold records with delimiters, not one record each"
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="what to send (default: stdin, in lines)")
    parser.set_defaults(run=run)


def _add_record_arguments(parser: argparse.ArgumentParser) -> None:
    """How input becomes keys, values and headers."""
    key = parser.add_mutually_exclusive_group()
    key.add_argument("-k", "--key", help="the key of every record")
    key.add_argument(
        "-K", "--key-delimiter", type=checked(escaped_bytes), metavar="DELIM",
        help="what separates key and value in the input",
    )  # fmt: skip
    parser.add_argument(
        "-H", "--header", dest="headers", action="append", default=[], type=checked(key_value), metavar="NAME=VALUE",
        help="a header for every record; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "-D", "--delimiter", type=checked(escaped_bytes), default=b"\n", metavar="DELIM",
        help=r"what separates records in the input (default: \n)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Send the input and return the exit code."""
    from tidelog.cli.connecting import run_client

    return run_client(lambda runtime: _produce(options, runtime))


async def _produce(options: argparse.Namespace, runtime: Runtime) -> int:
    import asyncio

    from tidelog.cli.connecting import PATIENCE
    from tidelog.cli.progress import progress
    from tidelog.client import Producer, ProducerConfig

    more = {"max.block.ms": PATIENCE["max.block.ms"]}
    if options.compression is not None:
        more["compression.type"] = options.compression
    if options.acks is not None:
        more["acks"] = options.acks
    properties = client_properties(options.bootstrap_server, options.properties, more.items())
    is_typed = not options.files and sys.stdin.isatty()
    shown = progress("acknowledged", runtime.clock, is_wanted=not (options.quiet or options.verbose or is_typed))
    outcome = _Outcome(shown, is_verbose=options.verbose)
    async with Producer.connect(ProducerConfig.from_properties(properties), runtime) as producer:
        records = _records(options, outcome)
        try:
            await _send_all(options, producer, outcome, records)
        except CommandFailed:
            await producer.flush()  # what came before the bad piece of input has been sent, and is delivered
            raise
        except asyncio.CancelledError:
            await _deliver_rest(options, producer, outcome, records)
            raise
    return outcome.report()


async def _deliver_rest(
    options: argparse.Namespace, producer: Producer, outcome: _Outcome, records: AsyncIterator[InputRecord]
) -> None:
    """After Ctrl-C: what was read is delivered, unless there is another one; what is not is counted."""
    import asyncio

    from tidelog.client.errors import ClientError

    async def deliver() -> None:
        outcome.is_last_chunk = True
        if outcome.interrupted is not None:
            await _send(options, producer, outcome, outcome.interrupted)
        async for record in records:  # the rest of the lines that came with it
            outcome.read_count += 1
            await _send(options, producer, outcome, record)
        await producer.flush()
        await asyncio.sleep(0)  # the fates that are known now are noted in the next turn of the loop

    delivering = asyncio.ensure_future(deliver())
    try:
        await asyncio.wait([delivering], timeout=_QUICK_S)
        if not delivering.done():
            waiting = _counted(outcome.open_count)
            sys.stderr.write(f"tidelog produce: waiting for {waiting} to be acknowledged; Ctrl-C again gives up\n")
        await delivering
    except ClientError as failure:
        sys.stderr.write(f"tidelog produce: {failure}\n")
    finally:
        delivering.cancel()
        if outcome.lost_count:
            sys.stderr.write(f"tidelog produce: {_counted(outcome.lost_count)} not delivered\n")


async def _send_all(
    options: argparse.Namespace, producer: Producer, outcome: _Outcome, records: AsyncIterator[InputRecord]
) -> None:
    sent_count = 0
    async for record in records:
        outcome.read_count += 1
        outcome.interrupted = record
        await _send(options, producer, outcome, record)
        outcome.interrupted = None
        sent_count += 1
        if sent_count == options.count:
            return


async def _send(options: argparse.Namespace, producer: Producer, outcome: _Outcome, record: InputRecord) -> None:
    delivery = await producer.send(
        options.topic,
        record.value,
        key=record.key,
        partition=record.partition if options.partition is None else options.partition,
        timestamp_ms=record.timestamp_ms,
        headers=record.headers,
    )
    delivery.add_done_callback(partial(outcome.note, len(record.key or b"") + len(record.value or b"")))


def _counted(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


class _Outcome:
    """Counts what became of the records; names the first few that were lost."""

    def __init__(self, progress: Progress, *, is_verbose: bool) -> None:
        self._progress = progress
        self._is_verbose = is_verbose
        self._failed_count = 0
        self._delivered_count = 0
        self.read_count = 0
        self.interrupted: InputRecord | None = None
        """The record that is being handed to the producer: with nobody to tell of the topic that takes a while."""
        self.is_last_chunk = False
        """Whether nothing more is read than was read already."""

    @property
    def lost_count(self) -> int:
        """Records that were read, and of which nobody has said that they are there."""
        return self.read_count - self._delivered_count

    @property
    def open_count(self) -> int:
        """Records whose fate is not known."""
        return self.lost_count - self._failed_count

    def note(self, size_bytes: int, delivery: asyncio.Future[RecordMetadata]) -> None:
        """One record's fate is known."""
        if delivery.cancelled():  # Ctrl-C
            return
        if (failure := delivery.exception()) is not None:
            self._failed_count += 1
            if self._failed_count <= FAILURES_SHOWN:
                sys.stderr.write(f"tidelog produce: {failure}\n")
            return
        self._delivered_count += 1
        self._progress.add(1, size_bytes)
        if self._is_verbose:
            metadata = delivery.result()
            sys.stdout.write(f"{metadata.topic_partition}@{metadata.offset}\n")

    def report(self) -> int:
        """The exit code, after a last word about what was not shown."""
        self._progress.end()
        if self._failed_count > FAILURES_SHOWN:
            sys.stderr.write(f"tidelog produce: {self._failed_count} records were not acknowledged\n")
        return EXIT_FAILED if self._failed_count else EXIT_OK


async def _records(options: argparse.Namespace, outcome: _Outcome) -> AsyncIterator[InputRecord]:
    """All records of the input, in its order. Raises WrongUsage on input that cannot be understood."""
    rules = InputRules(
        key=None if options.key is None else options.key.encode(),
        key_delimiter=options.key_delimiter,
        headers=tuple((name, value.encode()) for name, value in options.headers),
        empty_is_null=options.null,
        is_json=options.json,
    )
    try:
        async for piece in _pieces(options, outcome):
            if not (options.json and not piece.strip()):  # an empty line is no JSON, and no mistake either
                yield rules.record(piece)
    except Unreadable as error:
        raise WrongUsage(str(error)) from None


async def _pieces(options: argparse.Namespace, outcome: _Outcome) -> AsyncIterator[bytes]:
    """The input, cut into what becomes a record each."""
    if not options.files:
        async for piece in _split(sys.stdin.buffer, options.delimiter, outcome):
            yield piece
        return
    for name in options.files:
        with ExitStack() as stack:
            try:
                file = stack.enter_context(open(name, "rb"))  # noqa: ASYNC230  # opening is quick; reading is done in a thread
            except OSError as error:
                raise CommandFailed(f"cannot read {name}: {error.strerror}") from None
            is_split = options.lines or options.json
            async for piece in _split(file, options.delimiter, outcome) if is_split else _whole(file, name):
                yield piece
        if outcome.is_last_chunk:
            return


async def _split(stream: BinaryIO, delimiter: bytes, outcome: _Outcome) -> AsyncIterator[bytes]:
    from tidelog.cli.chunks import chunks

    splitter = Splitter(delimiter)
    async for chunk in chunks(stream):
        for piece in splitter.feed(chunk):
            yield piece
        if outcome.is_last_chunk:
            return
    if (rest := splitter.rest()) is not None:
        yield rest


async def _whole(stream: BinaryIO, name: str) -> AsyncIterator[bytes]:
    from tidelog.cli.chunks import chunks

    content = bytearray()
    async for chunk in chunks(stream):
        content += chunk
        if len(content) > RECORD_MAX_BYTES:
            raise CommandFailed(f"{name} is larger than {RECORD_MAX_BYTES} bytes; -l sends its lines")
    yield bytes(content)
