"""What is left to be read of one range, and what has stood in the way."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from tidelog.model import Offset
from tidelog.pipeline.source.planning import Range

logger = logging.getLogger(__name__)

_REMEMBERED: Final = 6
_SAID_AFTER_MS: Final = 3_000.0  # who waits for longer says so in the task's log
_FIRST_BYTES: Final = 256  # of a record, before one has been seen
_BYTES_MIN: Final = 64 << 10
_HEADROOM: Final = 4 << 10


class RangeLeft:
    """One range of a task while it is being read."""

    def __init__(self, at: int, whole: Range) -> None:
        self.at = at
        self.topic_partition = whole.topic_partition
        self.topic_id = whole.topic_id
        self.position: Offset = whole.start
        self.end: Offset = whole.end
        self.is_asked = False
        self.not_before_ms = 0.0
        self.failures = 0
        self.served = 0
        """How often something came: who was served least is asked for first, since an answer is full before all have had their turn."""
        self.bytes_min = _BYTES_MIN
        self._bytes_per_offset: float = _FIRST_BYTES
        self._stuck_since_ms: float | None = None
        self._said_ms = 0.0
        self._answers: deque[str] = deque(maxlen=_REMEMBERED)

    @property
    def is_done(self) -> bool:
        """Whether everything has been fetched."""
        return self.position >= self.end

    def bytes_wanted(self, bytes_max: int) -> int:
        """How much to ask for: what is left, as far as the records so far tell, and no more than one may ask for."""
        estimate = int((self.end - self.position) * self._bytes_per_offset * 1.1) + _HEADROOM
        return max(self.bytes_min, min(estimate, bytes_max))

    def advance(self, next_offset: Offset, size: int) -> None:
        """Records came: the trouble, if there was any, is over."""
        self._bytes_per_offset = max(1.0, size / (next_offset - self.position))
        self.position = next_offset
        self.served += 1
        self.calm()

    def calm(self) -> None:
        """Nothing stands in the way."""
        self.failures = 0
        self.not_before_ms = 0.0
        self._stuck_since_ms = None
        self._answers.clear()

    def forgive(self, since_ms: float, now_ms: float) -> None:
        """For so long nothing was asked for, which is nobody's fault but ours."""
        if self._stuck_since_ms is not None:
            self._stuck_since_ms += now_ms - max(since_ms, self._stuck_since_ms)

    def skip_to(self, offset: Offset, why: str) -> None:
        """Go on elsewhere, for what was before that is lost."""
        logger.warning("records are lost, and the query goes on: %s", why)
        self.position = offset
        self.failures = 0
        self._stuck_since_ms = None

    def trouble(self, now_ms: float, answer: str) -> None:
        """Another attempt brought nothing; `answer` is who was asked, and what came of it."""
        self.failures += 1
        if self._stuck_since_ms is None:
            self._stuck_since_ms = self._said_ms = now_ms
        said = f"after {self.stuck_ms(now_ms) / 1000:.1f} s {answer}"
        self._answers.append(said)
        if now_ms - self._said_ms >= _SAID_AFTER_MS:
            self._said_ms = now_ms
            logger.warning("still waiting for offset %d of %s: %s", self.position, self.topic_partition, said)

    def stuck_ms(self, now_ms: float) -> float:
        """For how long nothing has come that was asked for."""
        return 0.0 if self._stuck_since_ms is None else now_ms - self._stuck_since_ms

    def story(self) -> str:
        """The last answers, oldest first."""
        return "; ".join(self._answers)
