"""The log of a process: to a file that cannot grow without bound, or to stderr; as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from tidelog.cli.failure import CommandFailed
from tidelog.runtime.logs import FIELDS_ATTRIBUTE, render

FILE_MAX_BYTES: Final = 16 << 20
OLD_FILES_KEPT: Final = 4


def configure_logging(path: Path | None, *, log_format: str, level: int = logging.INFO) -> None:
    """Send everything to `path`, and warnings to stderr too; without a path, everything to stderr."""
    formatter = JsonFormatter() if log_format == "json" else TextFormatter()
    stderr: logging.Handler = logging.StreamHandler(sys.stderr)
    handlers = [stderr]
    if path is not None:
        stderr.setLevel(logging.WARNING)
        try:
            handlers.append(
                RotatingFileHandler(path, maxBytes=FILE_MAX_BYTES, backupCount=OLD_FILES_KEPT, encoding="utf-8")
            )
        except OSError as error:
            raise CommandFailed(f"cannot write the log {path}: {error.strerror}") from None
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=handlers, force=True)


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z INFO tidelog.broker leader elected partition=orders-0`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it if there is one."""
        line = f"{_timestamp(record)} {record.levelname} {record.name} {render(record.getMessage(), _fields(record))}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the values are."""
        content: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info is not None:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False, default=str)


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found: dict[str, object] = getattr(record, FIELDS_ATTRIBUTE, {})
    return found
