"""How far the next micro-batch of a streaming query reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from tidelog.model import IsolationLevel, TopicPartition
from tidelog.pipeline.source.bearings import Bearings
from tidelog.pipeline.source.errors import DataLost, TopicMissing
from tidelog.pipeline.source.offsets import (
    Positions,
    count_between,
    fell_back,
    limited,
    made_anew,
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
        self._initial: dict[str, object] | None = None
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
            positions = await Bearings(self._survey, self._options).starting(partitions)
            self._raise_target(positions)
            self._initial = written_initial(positions, self._survey.whose)
        return self._initial

    async def prepare_for_available_now(self) -> None:
        """From now on nothing counts that comes later."""
        self._target = await self._survey.latest(await self._survey.partitions_left())

    async def latest(self, start: Mapping[str, object], *, is_limited: bool) -> dict[str, object]:
        """Where the micro-batch ends that begins at `start`; at `start` where there is none to do."""
        if self._idle_count and self._target is None:
            await asyncio.sleep(min(self._idle_count * _IDLE_STEP_MS, _IDLE_MAX_MS) / 1000)
        began, self._last_ends = await self._ends(start)
        ends = await self._limited(began, self._last_ends) if is_limited else self._last_ends
        found = written_end(start, ends, began, self._survey.whose)
        self._idle_count = self._idle_count + 1 if found == start else 0
        return found

    def reported(self) -> dict[str, object] | None:
        """Where the logs ended when that was last looked at, for the lag in the query's progress."""
        return None if self._last_ends is None else {**written(self._last_ends)}

    async def _ends(self, start: Mapping[str, object]) -> tuple[Positions, Positions]:
        """What has been read, and where each partition ends. One that is gone, was cut or is another's now is data loss."""
        began = positions_in(start)
        ends = await self._ends_now() if self._target is None else await self._with_younger(began, self._target)
        ends = await self._past_undecided(start, ends)
        if self._is_doubtful(start, ends):
            ends = await self._settled(start, ends)
        if self._target is not None:
            self._target = ends
        if strangers := made_anew(start, self._whose(ends)):
            self._on_loss(
                f"{', '.join(sorted(strangers))}: made anew since it was read, or of another cluster; "
                "what the former one held and had not been read is gone"
            )
            began = {key: offset for key, offset in began.items() if key.topic not in strangers}
        missing = sorted(key for key in began if key not in ends)
        unwanted = self._survey.unwanted(missing)
        if unwanted:
            self._on_loss(
                f"{', '.join(map(str, unwanted))}: read before, but not meant by the option {self._survey.option} any more; "
                "what had not been read of it never will be"
            )
        if gone := sorted(set(missing) - set(unwanted)):
            self._on_loss(f"{', '.join(map(str, gone))}: gone, topic and all, with whatever had not been read")
        for key in fell_back(began, ends, began):
            self._on_loss(
                f"{key} ends at offset {ends[key]} but was read up to {began[key]} before: "
                "the topic was made anew, or an election lost records"
            )
        return began, ends

    def _raise_target(self, initial: Positions) -> None:
        """A run that reads what there is now begins no later than it ends: records may have come between the two questions."""
        if self._target is not None:
            self._target = {
                **self._target,
                **{key: max(offset, self._target.get(key, offset)) for key, offset in initial.items()},
            }

    async def _with_younger(self, began: Positions, target: Positions) -> Positions:
        """The target, with partitions that came after it was set and before the query began: nothing of them is read in this run."""
        unknown = began.keys() - target.keys()
        if not unknown:
            return target
        there = unknown & set(await self._survey.partitions_left())
        return {**target, **{key: began[key] for key in there}}

    async def _settled(self, start: Mapping[str, object], ends: Positions) -> Positions:
        """The ends, once they are past what was read, or have not been for a while.

        A broker may be late to hear of a topic, and a new leader late to know how much of its log is committed. What the run of a target
        is to read grows only to what was read before.
        """
        doubtful_until_ms = self._clock.monotonic_ms() + APPEARANCE_MS
        found = ends
        while self._is_doubtful(start, found) and self._clock.monotonic_ms() < doubtful_until_ms:
            await asyncio.sleep(_DOUBT_PAUSE_MS / 1000)
            self._discovered_ms = None
            found = await self._past_undecided(start, await self._ends_now())
        if self._target is None:
            return found
        began, strangers = positions_in(start), made_anew(start, self._whose(found))
        return {
            key: offset if key.topic in strangers else max(ends.get(key, 0), min(offset, began.get(key, 0)))
            for key, offset in found.items()
            if key in ends or key in began
        }

    async def _past_undecided(self, start: Mapping[str, object], ends: Positions) -> Positions:
        """The ends, none of them before what was read of a log that still has it, decided or not.

        A checkpoint that was written while the query read what is not decided, or by Spark's own source, which does so by default, may be
        ahead of all that is decided. Nothing is lost then, and there is nothing to read again: it only is to be waited for.
        """
        if self._survey.isolation_level is not IsolationLevel.READ_COMMITTED:
            return ends
        began, strangers = positions_in(start), made_anew(start, self._whose(ends))
        behind = [key for key in fell_back(began, ends, began) if key.topic not in strangers]
        undecided = await self._survey.latest_undecided(behind) if behind else {}
        return {**ends, **{key: began[key] for key in behind if undecided[key] >= began[key]}}

    def _is_doubtful(self, start: Mapping[str, object], ends: Positions) -> bool:
        began = positions_in(start)
        is_behind = any(key not in ends or ends[key] < began[key] for key in began)
        return is_behind or bool(made_anew(start, self._whose(ends)))

    def _whose(self, ends: Positions) -> dict[str, object]:
        return self._survey.whose.written(ends)

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
