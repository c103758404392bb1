"""Bytes that come in pieces, as lines."""

from __future__ import annotations

from typing import Final

LINE_BYTES_MAX: Final = 1 << 20  # a longer one is handed out in parts, so that nobody can fill our memory


class Lines:
    """Cuts what it is fed into lines without their ends; what is not UTF-8 is shown as escapes."""

    def __init__(self) -> None:
        self._unfinished = b""

    def feed(self, content: bytes) -> list[str]:
        """The lines that are complete now."""
        *lines, self._unfinished = (self._unfinished + content).split(b"\n")
        if len(self._unfinished) > LINE_BYTES_MAX:
            lines.append(self._unfinished)
            self._unfinished = b""
        return [_text(line) for line in lines]

    def rest(self) -> list[str]:
        """What came after the last line end, if anything did."""
        rest, self._unfinished = self._unfinished, b""
        return [_text(rest)] if rest else []


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="backslashreplace").rstrip("\r")
