"""Why rows could not be written, each in a sentence for the one who started the query."""

from __future__ import annotations


class SinkFailed(Exception):
    """Whatever the sink could not do. Nothing was lost by it: the query replays the micro-batch when it is started again."""


class BadRows(SinkFailed):
    """The columns, or a row, are not what can be written."""


class TopicMissing(SinkFailed):
    """A topic to be written to is not there."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic!r}, named by the option topic or the column topic, does not exist: create it, the sink does not"
        )


class StagingFailed(SinkFailed):
    """A file could not be written to the staging directory, or not be read from it."""


class RowsGone(SinkFailed):
    """What tasks have prepared is not there any more."""


class SinkFenced(SinkFailed):
    """Somebody else writes under the same sink id."""

    def __init__(self, sink_id: str, why: str) -> None:
        super().__init__(
            f"another driver has taken over the sink id {sink_id!r}, so this query must not write any more: only one "
            f"query at a time may use a checkpoint, or a value of the option sink.id ({why})"
        )


class CheckpointChanged(SinkFailed):
    """The checkpoint is not the one under which the micro-batch was written."""
