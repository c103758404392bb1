"""Why something failed, in the words of whoever has to mend it: of Spark's reports and Python's tracebacks the one sentence that matters.

Nothing is made up: what is not recognised is quoted, its first or last line, and the log has the rest.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

_REASON_MAX: Final = 600
_ERROR_LINE: Final = re.compile(r"^\s*(?:tidelog\.[\w.]+|[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))(?:: .*)?$")
_CLASS: Final = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )*\[[A-Z][A-Z_.0-9]*\]\s*")
_SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*$")
_OURS: Final = "tidelog."
_CUT_AT: Final = (
    "=== Streaming Query ===",
    "\nJVM stacktrace:",
    "\n== SQL",
    "\nSome of the failures",
    "\nDriver stacktrace:",
)


def _says(pattern: str, sentence: str) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL), lambda found: sentence.format(*found.groups())


_KNOWN: Final = (
    _says(
        r"Failed to find (?:the )?data source: ([\w.-]*\w)",
        "there is no format {0}: tidelog, parquet, json, csv, orc, console and memory are there, others must be installed",
    ),
    _says(
        r"Data source ([\w.-]+) does not support streamed (\w+)",
        "the format {0} does not support streamed {1}",
    ),
    _says(
        r"Another instance of Derby may have already booted the database ([^\s]*[^\s.])",
        "the catalog {0} is locked by another process that uses this storage; end that one, then run this again",
    ),
    _says(
        r"Python worker failed to connect back",
        "Spark gave its own Python process 10 s to start, and this machine was too busy for that; nothing is lost: run it again",
    ),
    _says(
        r"All masters are unresponsive|Failed to connect to master ([^\s]+)",
        "no Spark master answers at the address of --master",
    ),
    _says(r"Could not parse Master URL:? ?'?([^'\s]+)'?", "{0} is no Spark master"),
    _says(
        r"streaming sources? (?:were|was|have been)? ?(?:added|removed|changed)|There are \[?\d+\]? sources in the checkpoint",
        "a flow reads other sources than its checkpoint knows; run it once with --full-refresh and the name of what it writes to",
    ),
    _says(
        r"LOCATION_ALREADY_EXISTS.*?(`[^\n]+?`)(?: as|\.|,| because)",
        "the directory of the table {0} exists although the catalog does not know it; remove one of them, or run with --full-refresh",
    ),
    _says(r"No space left on device", "no space is left on the disk of the storage, or of Spark's temporary files"),
)


def plain_reason(text: str) -> str:
    """One sentence of what Spark reports of a failure: a query's, a flow's, or that of a whole run."""
    for cut in _CUT_AT:
        text = text.partition(cut)[0]
    ours = _said_in_python(text)
    if ours is not None and ours.startswith(_OURS):
        return _shortened(ours.partition(": ")[2] or ours)
    for pattern, sentence in _KNOWN:
        if found := pattern.search(text):
            return sentence(found)
    if ours is not None:
        return _shortened(ours)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _shortened(_without_tags(lines[0]) if lines else "Spark did not say why")


def definition_failure(error: BaseException, root: Path) -> str:
    """Why a definition file could not be used: its line, not one of Spark's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename, root)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_below(frame.filename, root)]
    place = f"{_shown(frames[-1].filename, root)}, line {frames[-1].lineno}: " if frames else ""
    return f"{place}{_named(error)}"


def _named(error: BaseException) -> str:
    module = type(error).__module__
    if module.startswith(("pyspark", "py4j")):
        return plain_reason(str(error))
    if module.startswith(_OURS):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _said_in_python(text: str) -> str | None:
    """The last line of the last traceback that a report quotes."""
    if "Traceback (most recent call last)" not in text:
        return None
    found = [line.strip() for line in text.splitlines() if _ERROR_LINE.match(line)]
    return found[-1] if found else None


def _without_tags(line: str) -> str:
    return _SQLSTATE.sub("", _CLASS.sub("", line))


def _shortened(text: str) -> str:
    text = _SQLSTATE.sub("", text.strip())
    return text if len(text) <= _REASON_MAX else text[:_REASON_MAX] + "..."


def _is_below(file: str, root: Path) -> bool:
    return Path(file).is_absolute() and root.resolve() in Path(file).resolve().parents


def _shown(file: str, root: Path) -> str:
    path = Path(file)
    return str(path.resolve().relative_to(root.resolve())) if _is_below(file, root) else file
