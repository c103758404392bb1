"""Starting streaming queries on machines that are busy with other things."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.cluster.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""For a JVM that does not live long enough for what a better compiler and collector cost."""

_TOO_BUSY: Final = "connect back"
_ATTEMPTS: Final = 10
_START_S: Final = 120


def start_query(writer: DataStreamWriter) -> StreamingQuery:
    """`writer.start()`, again where Spark gave up on its own Python process for a source or sink before that ran a line of ours.

    Spark waits for ten seconds, and nothing changes that. Another failure is for the caller to see. The sink must be one that can be
    started again on its checkpoint, as that in memory cannot.
    """
    query = begun(writer.start())
    for _ in range(_ATTEMPTS):
        if _TOO_BUSY in str(query.exception()):
            query = begun(writer.start())
    return query


def begun(query: StreamingQuery) -> StreamingQuery:
    """The query, when it has begun or ended: Spark has started the process of its source, or has failed to."""
    eventually(lambda: _has_begun(query), "the query has begun or ended", timeout_s=_START_S)
    return query


def _has_begun(query: StreamingQuery) -> bool:
    return not query.isActive or "nitializing" not in query.status["message"]
