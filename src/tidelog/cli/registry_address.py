"""Where the registry is, as the command line writes it."""

from __future__ import annotations

import argparse
from typing import Final

from tidelog.cli.arguments import checked

SCHEME: Final = "zookeeper://"


def add_registry_argument(parser: argparse.ArgumentParser, text: str) -> None:
    """`--registry zookeeper://HOST:PORT,.../CHROOT`; the value is as `zookeeper.connect` wants it."""
    parser.add_argument(
        "--registry", type=checked(zookeeper_connect), metavar="zookeeper://HOST:PORT[,...][/CHROOT]", help=text
    )


def zookeeper_connect(address: str) -> str:
    """What `zookeeper.connect` says for an address. Raises ValueError."""
    connect = address.removeprefix(SCHEME)
    hosts, slash, chroot = connect.partition("/")
    is_good = connect != address and all(map(_is_host_and_port, hosts.split(",")))
    if not is_good or (slash and (not chroot or "//" in f"/{chroot}/")):
        raise ValueError(f"{address!r} is not of the form zookeeper://HOST:PORT,HOST:PORT/CHROOT")
    return connect


def _is_host_and_port(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) <= 65_535
