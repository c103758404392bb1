"""How often, and for how long, a commit is tried before the query has to fail."""

from __future__ import annotations

import threading
from typing import Final

from tidelog.client import ClientError
from tidelog.pipeline.sink.commit_trouble import (
    explained,
    is_fence,
    may_mean_timeout,
    may_pass,
    reason_of,
    took_too_long,
)
from tidelog.pipeline.sink.errors import SinkFailed, SinkFenced
from tidelog.pipeline.sink.ledger import FoundMarkers
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.source.errors import BrokersSilent
from tidelog.runtime import Runtime

_FENCED_MAX: Final = 1
"""So often a commit begins again after it was fenced, or its time was up: another process of this driver, or brokers that were slow for
once, may be the reason."""


class Attempts:
    """The attempts at one commit. New ones are made for delivery.timeout.ms; each of them is bounded by the settings of the client."""

    def __init__(self, settings: SinkSettings, runtime: Runtime) -> None:
        self.count = 0
        """How many have failed."""
        self.found_before: FoundMarkers | None = None
        """The markers as the last attempt knew them; None where it had not come so far."""
        self._settings = settings
        self._runtime = runtime
        self._config = settings.producer_config()
        self._deadline_ms = runtime.clock.monotonic_ms() + self._config.delivery_timeout_ms
        self._fenced_count = 0

    @property
    def is_over(self) -> bool:
        """Whether there is no time for another one."""
        return self._runtime.clock.monotonic_ms() >= self._deadline_ms

    def on_failure(self, error: ClientError, found: FoundMarkers | None, *, open_ms: float) -> None:
        """Returns where another attempt may be made, of a transaction that was open for so long. Raises SinkFailed where not."""
        self.count += 1
        # Whose transaction brokers have aborted because its time was up hears the same as one whose sink id was taken over.
        late = took_too_long(self._settings, open_ms) if may_mean_timeout(error) else None
        if late is not None or is_fence(error):
            self._fenced_count += 1
            if self._fenced_count > _FENCED_MAX or found is None:
                if late is not None:
                    raise SinkFailed(f"{explained(error, self._settings)} ({late})") from error
                raise SinkFenced(self._settings.sink_id, str(reason_of(error))) from error
        elif not may_pass(error) or self.is_over:
            raise SinkFailed(explained(error, self._settings)) from error
        self.found_before = self.found_before if found is None else found
        self._pause()

    def on_silence(self, error: BrokersSilent) -> None:
        """Nobody answers, though somebody did before. Raises the error where that was never so, or has been so for too long."""
        if not self.count or self.is_over:
            raise error
        self._pause()

    def check_still_ours(self, found: FoundMarkers, run_id: str, *, since: FoundMarkers) -> None:
        """Raises SinkFenced where somebody else has decided anything since then: the sink id is not for us to take over again."""
        for topic, marker in found.markers.items():
            if marker != since.markers.get(topic) and marker.run_id != run_id:
                raise SinkFenced(
                    self._settings.sink_id,
                    f"run {marker.run_id} of query {marker.query_id} has committed micro-batch {marker.micro_batch_id}",
                )

    def _pause(self) -> None:
        delay_ms = self._config.retry_backoff.delay_ms(self.count, self._runtime.randomness)
        threading.Event().wait(delay_ms / 1000)
