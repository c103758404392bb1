"""Whether a broker that starts still knows all it knew when it was last registered; only then does it keep its standing in ISRs.

Every log directory holds a note of the registration it was last used under, and the registry remembers the last registration of the broker.
If they agree, it is the same directory in its newest state, no copy and no empty replacement. What was written to it is then all there
if the broker was shut down cleanly, or if the machine has not been switched off since: a killed process leaves its writes to the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.broker.log_placement import OnFailed
from tidelog.controller import layout
from tidelog.model import BrokerEpoch, BrokerId
from tidelog.runtime import DiskFull, FileMissing, Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage import LogDirectory

logger = logging.getLogger(__name__)

FILE: Final = "tidelog.incarnation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """The content of the note in a log directory."""

    directory_id: str
    boot_id: str
    broker_epoch: BrokerEpoch

    def encode(self) -> bytes:
        """As it is written."""
        content = {
            "version": 1,
            "directory_id": self.directory_id,
            "boot_id": self.boot_id,
            "broker_epoch": self.broker_epoch,
        }
        return json.dumps(content, indent=1).encode() + b"\n"


def decode(content: bytes) -> Incarnation | None:
    """What a note says; None for one that makes no sense."""
    try:
        note = json.loads(content)
        return Incarnation(
            directory_id=str(note["directory_id"]), boot_id=str(note["boot_id"]), broker_epoch=int(note["broker_epoch"])
        )
    except (ValueError, KeyError, TypeError):
        return None


class Incarnations:
    """The notes of one broker."""

    def __init__(self, broker_id: BrokerId, runtime: Runtime) -> None:
        self._broker_id = broker_id
        self._runtime = runtime
        self._directory_ids: dict[str, str] = {}
        self.has_lost_standing = False  # What was known here last may have been forgotten at this start.

    def is_intact(self, directories: Iterable[LogDirectory], remembered: BrokerEpoch | None) -> bool:
        """Whether every directory that works is what it was when the broker was last registered, as the registry remembers that."""
        reasons = [reason for one in directories if (reason := self._objection(one, remembered)) is not None]
        if reasons and remembered is not None:
            logger.warning("broker lost its standing", extra=fields(broker_id=self._broker_id, reason=reasons[0]))
        self.has_lost_standing = bool(reasons)
        return not reasons

    async def remember(
        self, directories: Iterable[LogDirectory], broker_epoch: BrokerEpoch, on_failed: OnFailed
    ) -> None:
        """Note a registration in every directory. A broker that dies before it is done loses its standing: the safe way to be wrong."""
        loop = asyncio.get_running_loop()
        working = [one for one in directories if one.failure is None]
        results = await asyncio.gather(
            *(
                loop.run_in_executor(self._runtime.disk.threads(one.path), self._write, one, broker_epoch)
                for one in working
            ),
            return_exceptions=True,
        )
        for directory, result in zip(working, results, strict=True):
            if isinstance(result, DiskFull):  # It goes on without a note, and without its standing at the next start.
                logger.error("disk full", extra=fields(directory=directory.path, reason=result.reason))
            elif isinstance(result, StorageFailure):
                on_failed(directory, result)
            elif result is not None:
                raise result

    def forget(self, directories: Iterable[LogDirectory]) -> None:
        """Take the notes from directories that have failed: what was written to them last may be gone, whatever they say when they work again.

        Nobody waits for a disk that may never answer. A note that cannot be removed lies on a disk that is not written to again either.
        """
        loop = asyncio.get_running_loop()
        for one in directories:
            if one.failure is not None:
                loop.run_in_executor(self._runtime.disk.threads(one.path), self._remove, one.path)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(StorageFailure):
            self._runtime.disk.unlink(f"{path}/{FILE}")

    def _write(self, directory: LogDirectory, broker_epoch: BrokerEpoch) -> None:
        note = Incarnation(
            directory_id=self._directory_ids[directory.path],
            boot_id=self._runtime.disk.boot_id(),
            broker_epoch=broker_epoch,
        )
        self._runtime.disk.replace(f"{directory.path}/{FILE}", note.encode())

    def _objection(self, directory: LogDirectory, remembered: BrokerEpoch | None) -> str | None:
        """Why a directory cannot vouch for what it holds."""
        note = self._read(directory)
        self._directory_ids[directory.path] = (
            layout.encode_uuid(self._runtime.randomness.uuid()) if note is None else note.directory_id
        )
        if note is None and remembered is None:
            return None  # Who was never registered has nothing to have forgotten.
        if note is None:
            return f"{directory.path} was not in use under the last registration"
        if note.broker_epoch != remembered:
            return (
                f"{directory.path} was last used under registration {note.broker_epoch}, the last one was {remembered}"
            )
        is_clean = directory.is_clean and directory.last_broker_epoch == note.broker_epoch
        if not is_clean and note.boot_id != self._runtime.disk.boot_id():
            return f"the machine was switched off while {directory.path} was in use"
        if directory.is_cut_short:
            return f"a log in {directory.path} was damaged, and ends before that now"
        return None

    def _read(self, directory: LogDirectory) -> Incarnation | None:
        try:
            return decode(self._runtime.disk.read(f"{directory.path}/{FILE}"))
        except FileMissing:
            return None
        except StorageFailure as failure:
            logger.error("incarnation not read", extra=fields(directory=directory.path, reason=failure))
            return None
