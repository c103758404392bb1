"""What goes wrong with a cluster of tests, as a sentence for whoever wrote the test."""

from __future__ import annotations


class ClusterFailed(Exception):
    """A cluster could not be had, or not what was asked of it."""


class NotInTime(ClusterFailed):
    """What was waited for did not come about; the message says what was seen instead."""
