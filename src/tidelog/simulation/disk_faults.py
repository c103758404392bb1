"""The menu of disk faults: errors by operation and path, a disk that fills up, directories that turn read-only, stalls, power cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from tidelog.runtime.disk import StorageFailure

MUTATIONS: Final = frozenset(
    {"create", "write", "truncate", "fsync", "mkdir", "rename", "unlink", "rmdir", "fsync_dir", "utime", "lock"}
)
READS: Final = frozenset({"open", "stat", "read", "list"})


class PowerCut(BaseException):
    """The machine is off. Not an Exception: nothing of the node may catch it, as nothing of the node runs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One finished change to the disk, counted from 1."""

    number: int
    name: str
    path: str


OperationHook: TypeAlias = Callable[[Operation], None]


@dataclass(slots=True, eq=False, kw_only=True)
class FailureRule:
    """Operations that fail; `injected` says how often one did."""

    operation: str
    path: str
    skip: int
    times: int | None
    reason: str
    injected: int = 0


class DiskFaults:
    """Which operations fail next, and how often that really happened (`injected`, the dose counter)."""

    def __init__(self) -> None:
        self.injected = 0
        self._rules: list[FailureRule] = []
        self._read_only: list[str] = []

    def fail(
        self,
        operation: str = "*",
        *,
        path: str = "*",
        skip: int = 0,
        times: int | None = 1,
        reason: str = "Input/output error",
    ) -> FailureRule:
        """Let operations fail whose name and path match (shell patterns): after `skip` matches, `times` times (None: until healed).

        Operations: create, open, stat, read, list, write, truncate, fsync, mkdir, rename, unlink, rmdir, fsync_dir, utime, lock.
        """
        rule = FailureRule(operation=operation, path=path, skip=skip, times=times, reason=reason)
        self._rules.append(rule)
        return rule

    def withdraw(self, rule: FailureRule) -> None:
        """This rule holds no more; one that was withdrawn or healed already is left alone."""
        if rule in self._rules:
            self._rules.remove(rule)

    def make_read_only(self, directory: str) -> None:
        """Every change at or below `directory` fails from now on, also through files that are open; reads go on."""
        self._read_only.append(directory)

    def heal(self) -> None:
        """No more faults; what they did stays done."""
        self._rules.clear()
        self._read_only.clear()

    def check(self, operation: str, path: str) -> None:
        """Raise the failure that is due for this operation, if one is."""
        if not self._rules and not self._read_only:
            return
        for rule in self._rules:
            if fnmatchcase(operation, rule.operation) and fnmatchcase(path, rule.path) and self._is_due(rule):
                rule.injected += 1
                self._inject(operation, path, rule.reason)
        if operation in MUTATIONS and any(path == each or path.startswith(f"{each}/") for each in self._read_only):
            self._inject(operation, path, "Read-only file system")

    def _is_due(self, rule: FailureRule) -> bool:
        if rule.skip > 0:
            rule.skip -= 1
            return False
        if rule.times is None:
            return True
        rule.times -= 1
        return rule.times >= 0

    def _inject(self, operation: str, path: str, reason: str) -> None:
        self.injected += 1
        raise StorageFailure(operation, path, reason)
