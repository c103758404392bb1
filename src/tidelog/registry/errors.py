"""How the registry says no. Each error names the path it is about, so that a failed multi tells which operation failed."""

from __future__ import annotations


class RegistryError(Exception):
    """The operation was refused, and nothing of its multi has happened."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class NoNode(RegistryError):
    """There is no such node, or, for a create, no such parent."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no such node")


class NodeExists(RegistryError):
    """The node to create is there already."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the node exists already")


class BadVersion(RegistryError):
    """Somebody else has written the node since: its version is not the expected one."""

    def __init__(self, path: str, *, expected: int, actual: int) -> None:
        super().__init__(path, f"expected version {expected}, found {actual}")
        self.expected = expected
        self.actual = actual


class NotEmpty(RegistryError):
    """The node to delete has children."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the node has children")


class BadRequest(RegistryError):
    """No registry could do this: a malformed path, data beyond the limit, a child of an ephemeral node, the root deleted."""


class SessionExpired(RegistryError):
    """The session is over and its ephemeral nodes are gone; open a new one and read everything again."""


class RegistryUnavailable(Exception):
    """The registry cannot be used now. A write may or may not have happened; `may_pass` says whether trying again can help."""

    def __init__(self, where: str, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(f"registry {where}: {reason}")
        self.where = where
        self.reason = reason
        self.may_pass = may_pass
