"""The one way a run fails when it has begun: a sentence."""

from __future__ import annotations


class RunFailed(Exception):
    """The run cannot go on; the message is for whoever started it."""
