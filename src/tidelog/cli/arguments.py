"""Arguments that mean the same in every command."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.cli.output import OutputFormat

if TYPE_CHECKING:
    from tidelog.cli.connecting import Work

DEFAULT_PORT: Final = 9092
DEFAULT_BOOTSTRAP: Final = f"127.0.0.1:{DEFAULT_PORT}"
BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP"
CLIENT_ID: Final = "tidelog-cli"

T = TypeVar("T")


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is, and settings of the client."""
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST[:PORT][,...]",
        type=with_ports,
        default=default_bootstrap(),
        help=f"brokers to ask first, at port {DEFAULT_PORT} unless another is named (default: ${BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP})",
    )
    add_properties_argument(parser, "setting of the client by its Kafka name, e.g. -X linger.ms=20; may be repeated")


def finish_verb(parser: argparse.ArgumentParser, work: Work, *, client_id: str = CLIENT_ID) -> None:
    """Let a verb do its work on a cluster; the client is imported only when it runs."""
    add_connection_arguments(parser)
    parser.set_defaults(run=_run_connected, work=work, client_id=client_id)


def _run_connected(options: argparse.Namespace) -> int:
    from tidelog.cli.connecting import run_connected

    return run_connected(options)


def with_ports(bootstrap: str) -> str:
    """The same addresses, those without a port at Kafka's."""
    addresses = [each.strip() for each in bootstrap.split(",")]
    return ",".join(each if not each or _has_port(each) else f"{each}:{DEFAULT_PORT}" for each in addresses)


def _has_port(address: str) -> bool:
    """An IPv6 address without brackets is left for others to refuse."""
    return ":" in address and not address.endswith("]")


def default_bootstrap() -> str:
    """Whom to ask when nobody is named."""
    return os.environ.get(BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP)


def add_properties_argument(parser: argparse.ArgumentParser, text: str) -> None:
    """`-X key=value`, as kcat and rpk have it."""
    parser.add_argument(
        "-X", dest="properties", metavar="KEY=VALUE", action="append", default=[], type=checked(key_value), help=text
    )


def add_quiet_argument(parser: argparse.ArgumentParser) -> None:
    """`-q`."""
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress on stderr (there is none in pipes anyway)"
    )


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """`--format table|json`."""
    parser.add_argument(
        "--format",
        choices=[each.value for each in OutputFormat],
        default=OutputFormat.TABLE.value,
        help="for people or for programs (default: table)",
    )


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """An argparse type that shows the parser's own words when it raises ValueError."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def key_value(text: str) -> tuple[str, str]:
    """Read `key=value`; the value may be empty and may hold more equal signs."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ValueError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def client_properties(
    bootstrap: str, pairs: Sequence[tuple[str, str]], more: Iterable[tuple[str, str]] = ()
) -> dict[str, str]:
    """Settings for the client: the bootstrap servers, what the command's own options say, and above all `-X`."""
    return {"bootstrap.servers": bootstrap, "client.id": CLIENT_ID, **dict(more), **dict(pairs)}


def whole_number(*, low: int, high: int, what: str) -> Callable[[str], int]:
    """An argparse type for an integer within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ValueError(f"{text!r} is not {what} ({low} to {high})")
        return number

    return checked(parse)


def escaped_bytes(text: str) -> bytes:
    r"""Read a delimiter such as `:`, `\t`, `\n` or `\x1f`; it may not be empty."""
    if not text:
        raise ValueError("a delimiter may not be empty")
    return unescape(text)


def unescape(text: str) -> bytes:
    r"""Bytes of a text with the escapes \n \r \t \0 \\ and \xHH; other backslashes stand for themselves."""
    out = bytearray()
    position = 0
    while position < len(text):
        letter = text[position]
        following = text[position + 1 : position + 2]
        if letter != "\\" or not (following in _ESCAPES or following == "x"):
            out += letter.encode()
            position += 1
        elif following == "x":
            digits = text[position + 2 : position + 4]
            if len(digits) != 2 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(rf"{text!r}: \x wants two hexadecimal digits")
            out.append(int(digits, 16))
            position += 4
        else:
            out += _ESCAPES[following]
            position += 2
    return bytes(out)


_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
