"""What this room raises for bytes that are not what they claim to be."""

from __future__ import annotations


class CorruptBatch(Exception):
    """Bytes that are no valid record batch; the message says what is wrong and where."""


class ExpandsTooFar(CorruptBatch):
    """A compressed payload grew past its reader's limit: a decompression bomb, or an honest batch that is too large."""
