"""The transactions that tasks prepare: under which names, and the manifest that says which of them belong to one decision.

A manifest is written before anything is decided, and stays until everything in it has ended. By itself it decides nothing: what does is the
driver's own transaction, which commits the id of the decision with the marker, and which the brokers let nobody commit who is fenced. So a
manifest whose decision is the committed one must be carried out, and any other is void. When it is decided, a file beside it says so,
because brokers forget committed offsets after some days, and files do not. The manifest itself is never renamed: whoever looks for it while
its owner notes the decision would find it under neither name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.sink.errors import SinkFailed
from tidelog.pipeline.sink.options import SinkSettings

ATTEMPTS_MAX: Final = 1_000
RUNS_MAX: Final = 256
CANDIDATES_MAX: Final = 8

_VERSION: Final = 1
_LISTED: Final = ".json"
_DECIDED: Final = ".decided"
_DRAFT: Final = ".tmp"


class BrokenManifest(SinkFailed):
    """A file among the manifests is none, or of another sink. It got its name when it was whole, so somebody else has written it."""


def manifest_directory(settings: SinkSettings) -> Path:
    """Where the manifests of a query are, or of all batch jobs with this sink id. It is there before a task of a query opens a transaction."""
    if settings.checkpoint is not None:
        return settings.checkpoint / "sink-manifest"
    return settings.staging.parent / f"manifest-{quote(settings.sink_id, safe='')}"


def announce_two_phase(settings: SinkSettings) -> None:
    """Make the directory of the manifests of a query: it tells later runs, also in another commit mode, that something may be open.

    Raises SinkFailed.
    """
    if settings.checkpoint is None:
        return  # Batch jobs with the same sink id look for what is open themselves.
    directory = manifest_directory(settings)
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            _sync(settings.checkpoint)
    except OSError as error:
        raise SinkFailed(
            f"the directory {directory} for manifests of a two-phase commit cannot be made: {error}"
        ) from error


def task_ids(sink_id: str, *, run: int, partition: int, attempt: int) -> Iterator[str]:
    """Transactional ids for one attempt of a task, the first one that is free to be taken.

    There are bounded many over all time, since coordinators remember each for a week: a run of the query is a number below RUNS_MAX, and
    attempts are counted modulo ATTEMPTS_MAX. So attempts may share an id, of other runs or of stages that are done again; nothing but
    speed hangs on that being rare, because a task leaves alone what it finds open, and goes on to the next id.
    """
    for candidate in range(CANDIDATES_MAX):
        yield f"{sink_id}-{run % RUNS_MAX}-{partition}-{attempt % ATTEMPTS_MAX}.{candidate}"


def is_task_id(transactional_id: str, sink_id: str) -> bool:
    """Whether tasks of this sink use such an id. Those of a sink whose id only begins alike have more parts."""
    rest = transactional_id.removeprefix(f"{sink_id}-")
    return rest != transactional_id and re.fullmatch(r"\d{1,3}-\d+-\d{1,3}\.\d", rest) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is decided together. No other manifest has the same decision_id."""

    sink_id: str
    decision_id: str
    prepared: tuple[PreparedTransaction, ...]
    is_decided: bool = False  # for certain; else the brokers know


class Manifests:
    """The manifests of a sink, one file each, in a directory that is as durable and as shared as the checkpoint."""

    def __init__(self, directory: Path, sink_id: str) -> None:
        self._directory = directory
        self._sink_id = sink_id

    def write(self, manifest: Manifest) -> None:
        """When this returns the manifest is there whatever dies, and whole. Raises OSError; then it may be there or not."""
        draft = self._path(manifest.decision_id, _DRAFT)
        self._directory.mkdir(parents=True, exist_ok=True)
        with draft.open("w", encoding="utf-8") as file:
            file.write(_text(manifest))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path(manifest.decision_id, _LISTED))
        for directory in (self._directory, self._directory.parent):
            _sync(directory)

    def confirm(self, decision_id: str) -> None:
        """Note that it was decided. Where it is gone somebody has carried it out already. Raises OSError."""
        listed, decided = self._path(decision_id, _LISTED), self._path(decision_id, _DECIDED)
        if listed.exists():
            with suppress(FileNotFoundError):
                decided.touch()
                _sync(self._directory)
        if not listed.exists():
            decided.unlink(missing_ok=True)

    def read_all(self) -> list[Manifest]:
        """Those that are there, in the order of their names. Raises BrokenManifest, or OSError."""
        if not self._directory.is_dir():
            return []
        paths = sorted(path for path in self._directory.iterdir() if path.suffix == _LISTED)
        return [found for path in paths if (found := self._read(path)) is not None]

    def remove(self, decision_id: str) -> None:
        """Everything in it has ended. Harmless when done twice, or if it comes back after a crash."""
        for suffix in (_DRAFT, _DECIDED, _LISTED):  # last what is looked for, so that nothing lies about without it
            self._path(decision_id, suffix).unlink(missing_ok=True)

    def _path(self, decision_id: str, suffix: str) -> Path:
        return self._directory / f"{decision_id}{suffix}"

    def _read(self, path: Path) -> Manifest | None:
        """None if somebody has removed it just now."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            found = _parsed(text)
        except (ValueError, KeyError, TypeError) as error:
            raise BrokenManifest(f"{path} is no manifest of a two-phase commit: {error}") from None
        if found.sink_id != self._sink_id or found.decision_id != path.stem:
            raise BrokenManifest(
                f"{path} is the manifest {found.decision_id!r} of sink {found.sink_id!r}, not of {self._sink_id!r}: "
                "give each query a checkpoint of its own, and keep its option sink.id"
            )
        return replace(found, is_decided=self._path(found.decision_id, _DECIDED).exists())


def _text(manifest: Manifest) -> str:
    rows = {
        "version": _VERSION,
        "sink_id": manifest.sink_id,
        "decision_id": manifest.decision_id,
        "prepared": [str(each) for each in manifest.prepared],
    }
    return json.dumps(rows, indent=1) + "\n"


def _parsed(text: str) -> Manifest:
    rows = json.loads(text)
    if rows["version"] != _VERSION:
        raise ValueError(f"it is of version {rows['version']}, and this software knows version {_VERSION}")
    return Manifest(
        sink_id=rows["sink_id"],
        decision_id=rows["decision_id"],
        prepared=tuple(PreparedTransaction.parse(each) for each in rows["prepared"]),
    )


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
