"""Where the registry is, as the command line writes it."""

from __future__ import annotations

import argparse
import re
from typing import Final

from tidelog.cli.arguments import checked

SCHEME: Final = "zookeeper://"
_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+)(?::[1-9][0-9]{0,4})?"
_ADDRESS: Final = re.compile(rf"{SCHEME}{_HOST}(?:,{_HOST})*(?:/[^/\s]+)*")


def add_registry_argument(parser: argparse._ActionsContainer, text: str) -> None:
    """`--registry zookeeper://HOST:PORT,.../CHROOT`; the value is as `zookeeper.connect` wants it."""
    parser.add_argument(
        "--registry", type=checked(zookeeper_connect), metavar="zookeeper://HOST:PORT[,...][/CHROOT]", help=text
    )


def zookeeper_connect(address: str) -> str:
    """What `zookeeper.connect` says for an address. Raises ValueError."""
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"{address!r} is not of the form zookeeper://HOST:PORT,HOST:PORT/CHROOT")
    return address.removeprefix(SCHEME)
