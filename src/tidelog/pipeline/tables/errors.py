"""Why a table could not be written, each in a sentence for the one who started the query."""

from __future__ import annotations

from tidelog.pipeline.sink.errors import SinkFailed


class TableFailed(SinkFailed):
    """The table, or its catalog, does not take what is to be written."""


class SchemaDiffers(TableFailed):
    """The table has other columns than the rows."""


class TableFenced(TableFailed):
    """Another driver writes to the table from the same checkpoint."""


class CommitConflict(Exception):
    """Somebody else has changed the table since it was looked at: look again, then try again."""
