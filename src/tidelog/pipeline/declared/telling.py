"""What a driver tells the process that runs it: JSON, a line each, on a pipe of their own, so that nothing Spark prints can come between."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.pipeline.declared import board
from tidelog.pipeline.declared.progress import SourceProgress, distance

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


class Teller:
    """Writes events to a descriptor. Threads may share it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def ready(self) -> None:
        """Spark has started and the definitions are read."""
        self._tell({"event": board.READY})

    def note(self, text: str) -> None:
        """A sentence for people."""
        self._tell({"event": board.NOTE, "text": text})

    def flows(self, flows: Iterable[tuple[str, str | None]]) -> None:
        """The flows there are, and where they write to."""
        self._tell({"event": board.FLOWS, "flows": [{"name": name, "target": target} for name, target in flows]})

    def flow(self, name: str, state: str, reason: str | None = None) -> None:
        """A flow is in another state now."""
        self._tell({"event": board.FLOW, "flow": name, "state": state, "reason": reason})

    def progress(self, name: str, progress: StreamingQueryProgress, at_ms: int) -> None:
        """A micro-batch has ended, or there was nothing to do."""
        self._tell({"event": board.PROGRESS, "flow": name, "at_ms": at_ms, **progress_fields(progress)})

    def failed(self, reason: str) -> None:
        """The run has failed, and why."""
        self._tell({"event": board.FAILED, "reason": reason})

    def ended(self) -> None:
        """The run has done all there was to do, or all that it was let do."""
        self._tell({"event": board.ENDED})

    def _tell(self, event: dict[str, object]) -> None:
        line = (json.dumps(event) + "\n").encode()
        with self._lock, suppress(BrokenPipeError):  # nobody listens any more: we are about to be ended
            while line:
                line = line[os.write(self._descriptor, line) :]


def progress_fields(progress: StreamingQueryProgress) -> dict[str, object]:
    """Of Spark's progress what a board wants to know."""
    found = distance(
        SourceProgress(start=_text(each.startOffset), end=_text(each.endOffset), latest=_text(each.latestOffset))
        for each in progress.sources
    )
    return {
        "micro_batch_id": progress.batchId,
        "rows": progress.numInputRows,
        "duration_ms": progress.durationMs.get("triggerExecution", 0),
        "read": None if found is None else found.read,
        "lag": None if found is None else found.lag,
    }


def _text(offset: object) -> str | None:
    """Spark hands offsets over as texts, or as what the JSON in them means."""
    return offset if isinstance(offset, str) or offset is None else json.dumps(offset)
