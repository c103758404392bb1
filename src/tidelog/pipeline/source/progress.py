"""How far the next micro-batch of a streaming query reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from tidelog.model import TopicPartition
from tidelog.pipeline.source.bearings import Bearings
from tidelog.pipeline.source.errors import DataLost, TopicMissing
from tidelog.pipeline.source.offsets import (
    Positions,
    count_between,
    fell_back,
    limited,
    positions_in,
    written,
    written_end,
    written_initial,
)
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.survey import APPEARANCE_MS, Survey
from tidelog.runtime import Clock

logger = logging.getLogger(__name__)

_DISCOVERY_MS: Final = 1_000.0
"""How often to look for new topics and partitions; between two looks only the ends of the known ones are asked for."""

_DOUBT_PAUSE_MS: Final = 300.0

_IDLE_STEP_MS: Final = 5.0
_IDLE_MAX_MS: Final = 100.0
"""Spark asks for more all the time. The longer nothing comes, the less often the brokers are asked, but never much less often."""


class Progress:
    """Lives in the driver as long as its query runs there."""

    def __init__(self, survey: Survey, options: SourceOptions, clock: Clock) -> None:
        self._survey = survey
        self._options = options
        self._clock = clock
        self._initial: Positions | None = None
        self._known: list[TopicPartition] = []
        self._discovered_ms: float | None = None
        self._target: Positions | None = None  # Trigger.AvailableNow: where its run ends
        self._last_ends: Positions | None = None
        self._last_batch_ms: float | None = None
        self._idle_count = 0  # how often in a row there was nothing

    async def initial(self) -> dict[str, object]:
        """Where a query without a checkpoint begins; however often it is asked, the same."""
        if self._initial is None:
            partitions = await self._survey.partitions()
            self._initial = await Bearings(self._survey, self._options).starting(partitions)
        return written_initial(self._initial)

    async def prepare_for_available_now(self) -> None:
        """From now on nothing counts that comes later."""
        self._target = await self._survey.latest(await self._survey.partitions_left())

    async def latest(self, start: Mapping[str, object], *, is_limited: bool) -> dict[str, object]:
        """Where the micro-batch ends that begins at `start`; at `start` where there is none to do."""
        if self._idle_count and self._target is None:
            await asyncio.sleep(min(self._idle_count * _IDLE_STEP_MS, _IDLE_MAX_MS) / 1000)
        began = positions_in(start)
        self._last_ends = await self._ends(began)
        ends = await self._limited(began, self._last_ends) if is_limited else self._last_ends
        found = written_end(start, ends, began)
        self._idle_count = self._idle_count + 1 if found == start else 0
        return found

    def reported(self) -> dict[str, object] | None:
        """Where the logs ended when that was last looked at, for the lag in the query's progress."""
        return None if self._last_ends is None else {**written(self._last_ends)}

    async def _ends(self, began: Positions) -> Positions:
        """Where each partition ends. One that is gone or was cut is data loss."""
        if self._target is None:
            ends = await self._settled(began, await self._ends_now())
        else:
            ends = self._target = await self._with_younger(began, self._target)
        gone = sorted(key for key in began if key not in ends)
        if gone:
            self._on_loss(f"{', '.join(map(str, gone))}: gone, topic and all, with whatever had not been read")
        for key in fell_back(began, ends, began):
            self._on_loss(
                f"{key} ends at offset {ends[key]} but was read up to {began[key]} before: "
                "the topic was made anew, or an election lost records"
            )
        return ends

    async def _with_younger(self, began: Positions, target: Positions) -> Positions:
        """The target, with partitions that came after it was set and before the query began: nothing of them is read in this run."""
        unknown = began.keys() - target.keys()
        if not unknown:
            return target
        there = unknown & set(await self._survey.partitions_left())
        return {**target, **{key: began[key] for key in there}}

    async def _settled(self, began: Positions, ends: Positions) -> Positions:
        """The ends, once they are past what was read, or have not been for a while: a broker may be late to hear of a topic."""
        doubtful_until_ms = self._clock.monotonic_ms() + APPEARANCE_MS
        while self._is_doubtful(began, ends) and self._clock.monotonic_ms() < doubtful_until_ms:
            await asyncio.sleep(_DOUBT_PAUSE_MS / 1000)
            self._discovered_ms = None
            ends = await self._ends_now()
        return ends

    def _is_doubtful(self, began: Positions, ends: Positions) -> bool:
        return any(key not in ends or ends[key] < began[key] for key in began)

    async def _ends_now(self) -> Positions:
        now_ms = self._clock.monotonic_ms()
        if self._discovered_ms is None or now_ms - self._discovered_ms >= _DISCOVERY_MS:
            self._known = await self._survey.partitions_left()
            self._discovered_ms = now_ms
        try:
            return await self._survey.latest(self._known)
        except TopicMissing:
            self._discovered_ms = None
            self._known = await self._survey.partitions_left()
            return await self._survey.latest(self._known)

    def _on_loss(self, what: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLost(what)
        logger.warning("records are lost, and the query goes on: %s", what)

    def _waits_for_more(self, began: Positions, ends: Positions) -> bool:
        """Whether minOffsetsPerTrigger are not there yet, and maxTriggerDelay has not passed since the last micro-batch."""
        low = self._options.offsets_min
        if low is None or self._target is not None:
            return False
        now_ms = self._clock.monotonic_ms()
        is_overdue = self._last_batch_ms is None or now_ms - self._last_batch_ms >= self._options.delay_max_ms
        if count_between(began, ends) < low and not is_overdue:
            return True
        self._last_batch_ms = now_ms
        return False

    async def _limited(self, began: Positions, ends: Positions) -> Positions:
        """The ends that maxOffsetsPerTrigger and minOffsetsPerTrigger allow."""
        if self._waits_for_more(began, ends):
            return began
        high = self._options.offsets_max
        if high is None:
            return ends
        fresh = [key for key in ends if key not in began]
        starts = {**began, **(await self._survey.earliest(fresh) if fresh else {})}
        return limited(starts, ends, high)
