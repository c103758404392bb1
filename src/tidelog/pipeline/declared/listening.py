"""Hears from Spark how streaming queries get on, whoever started them, and passes it on by the name of the flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.pipeline.declared.telling import Teller
from tidelog.runtime.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class FlowListener(StreamingQueryListener):
    """Of all queries of a session; `short` makes of the name of a query that of its flow."""

    def __init__(self, teller: Teller, clock: Clock, short: Callable[[str], str]) -> None:
        self._teller = teller
        self._clock = clock
        self._short = short

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Its first micro-batch says the same."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch has ended."""
        progress = event.progress
        if progress.name:
            self._teller.progress(self._short(progress.name), progress, self._clock.wall_ms())

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """There was nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Whoever started it looks at its end."""
