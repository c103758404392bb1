"""What happened, one line per transition, and a digest of it: equal seeds must give equal digests, byte for byte of what was sent."""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from tidelog.runtime.logs import FIELDS_ATTRIBUTE, render
from tidelog.simulation.loop import current_process

LINES_MAX: Final = 100_000


class Trace:
    """Lines with virtual time and node. Keeps the last ones; the digest covers all."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._now_ms = now_ms
        self._hash = hashlib.sha256()

    def add(self, node: str, sentence: str, /, **fields: object) -> None:
        """One transition."""
        line = f"{self._now_ms():14.3f} {node:<12} {render(sentence, fields)}"
        self.lines.append(line)
        self._hash.update(line.encode("utf-8", "backslashreplace"))

    def fold(self, source: str, target: str, content: bytes | str) -> None:
        """Let what was sent count in the digest without a line of its own."""
        self._hash.update(f"{self._now_ms():.6f}{source}>{target}".encode())
        self._hash.update(content if isinstance(content, bytes) else content.encode())

    def digest(self) -> str:
        """The fingerprint of everything so far."""
        return self._hash.copy().hexdigest()

    def text(self, *, last: int = LINES_MAX) -> str:
        """The last lines, as a report shows them."""
        return "\n".join(list(self.lines)[-last:])


class TraceHandler(logging.Handler):
    """Puts what shells log into the trace, in the words of the production log.

    A shell logs an exception with its traceback where it survives a bug: one request, or one coordinator, goes, and the node goes on. In
    production that is right; here somebody must hear of it.
    """

    def __init__(self, trace: Trace, on_bug: Callable[[str, BaseException], None]) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self._on_bug = on_bug

    def emit(self, record: logging.LogRecord) -> None:
        """One record, one line; of an exception the kind and message, not the places, which move with every edit."""
        process = current_process()
        fields: dict[str, object] = dict(getattr(record, FIELDS_ATTRIBUTE, {}))
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = repr(record.exc_info[1])
            self._on_bug(record.getMessage(), record.exc_info[1])
        self._trace.add("world" if process is None else process.name, record.getMessage(), **fields)
