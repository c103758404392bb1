"""From what a user said (bounds) to offsets that are in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.model import Offset, TimestampMs, TopicPartition
from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.source.bounds import Bound, Edge, Moment, Moments, Places
from tidelog.pipeline.source.errors import DataLost
from tidelog.pipeline.source.offsets import Positions
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.survey import Survey, check_named

_HINT: Final = "startingOffsetsByTimestampStrategy"


class Bearings:
    """Finds the offsets of a bound for the partitions that a query reads."""

    def __init__(self, survey: Survey, options: SourceOptions) -> None:
        self._survey = survey
        self._options = options

    async def starting(self, partitions: Sequence[TopicPartition]) -> Positions:
        """Where a query begins. Raises OptionRefused, DataLost, TopicMissing or BrokersSilent."""
        return await self._find(self._options.starting, partitions, is_start=True)

    async def ending(self, partitions: Sequence[TopicPartition]) -> Positions:
        """Where a batch query ends."""
        return await self._find(self._options.ending, partitions, is_start=False)

    async def _find(self, bound: Bound, partitions: Sequence[TopicPartition], *, is_start: bool) -> Positions:
        match bound.where:
            case Edge.EARLIEST:
                return await self._survey.earliest(partitions)
            case Edge.LATEST:
                return await self._survey.latest(partitions)
            case Places(offsets):
                check_named(bound.option, offsets, partitions)
                return await self._places(bound.option, offsets)
            case Moment(timestamp_ms):
                return await self._moments(bound.option, dict.fromkeys(partitions, timestamp_ms), is_start=is_start)
            case Moments(timestamps_ms):
                check_named(bound.option, timestamps_ms, partitions)
                return await self._moments(bound.option, timestamps_ms, is_start=is_start)

    async def _places(self, option: str, offsets: Mapping[TopicPartition, Offset]) -> Positions:
        earliest, latest = await self._survey.earliest(offsets), await self._survey.latest(offsets)
        edges = {Edge.EARLIEST: earliest, Edge.LATEST: latest}
        found = {key: edges[Edge(at)][key] if at < 0 else at for key, at in offsets.items()}
        for key, at in found.items():
            if self._options.fails_on_data_loss and not earliest[key] <= at <= latest[key]:
                raise DataLost(
                    f"Option {option}: offset {at} of {key} is out of range, "
                    f"which is from {earliest[key]} to {latest[key]}"
                )
        return {key: min(max(at, earliest[key]), latest[key]) for key, at in found.items()}

    async def _moments(
        self, option: str, timestamps_ms: Mapping[TopicPartition, TimestampMs], *, is_start: bool
    ) -> Positions:
        found = await self._survey.find(timestamps_ms)
        young = [key for key, answer in found.items() if answer is None]
        if young and is_start and not self._options.is_latest_where_too_young:
            raise OptionRefused(
                option,
                f"{young[0]} has no record at or after {timestamps_ms[young[0]]}; "
                f"set {_HINT} to latest to begin at the end of such a partition",
            )
        latest = await self._survey.latest(young) if young else {}
        return {key: latest[key] if answer is None else answer.offset for key, answer in found.items()}
