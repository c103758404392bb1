"""How to reach a ZooKeeper ensemble: its members, the chroot, TLS and credentials. Knows nothing of the library that does it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tidelog.registry import tree
from tidelog.registry.errors import BadRequest, RegistryUnavailable

_ADDRESS: Final = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+)(?::([0-9]{1,5}))?")

REQUEST_BYTES_MAX: Final = 0xFFFFF  # a server's own default, jute.maxbuffer: it hangs up on who sends more


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions:
    """Everything about the connection but where it goes."""

    is_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verifies: bool = True  # the members' certificates, and that they are for the names we connect to
    mechanism: str | None = None  # one of config.replication.ZOOKEEPER_MECHANISMS
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A parsed connect string: the members as `host:port,host:port`, and the chroot, empty or beginning with a slash."""

    hosts: str
    chroot: str

    @classmethod
    def parse(cls, connect: str) -> Ensemble:
        """Read `host:port,host:port/chroot`, or raise RegistryUnavailable."""
        hosts, slash, rest = connect.strip().partition("/")
        chroot = f"{slash}{rest}".rstrip("/")
        members = [member.strip() for member in hosts.split(",")]
        if not all(_is_address(member) for member in members):
            raise RegistryUnavailable(connect, "expected host:port,host:port/chroot")
        if chroot:
            try:
                tree.check_path(chroot)
            except BadRequest as error:
                raise RegistryUnavailable(connect, f"the chroot is a {error.reason}") from None
        return cls(",".join(members), chroot)

    def outside(self, path: str) -> str:
        """A path of ours as the servers know it."""
        return path if not self.chroot else self.chroot if path == tree.ROOT else self.chroot + path

    def inside(self, path: str) -> str:
        """A path of the servers as we know it."""
        return path[len(self.chroot) :] or tree.ROOT

    def chroot_parts(self) -> list[str]:
        """The chroot's nodes, as the servers know them, from the root down."""
        names = self.chroot.split("/")[1:]
        return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]


def _is_address(member: str) -> bool:
    """Whether it is `host`, `host:port` or either with an IPv6 address in brackets."""
    match = _ADDRESS.fullmatch(member)
    return match is not None and (match[1] is None or 0 < int(match[1]) < 1 << 16)
