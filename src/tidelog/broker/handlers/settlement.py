"""Waiting until what was appended to some partitions is as safe as its sender wants it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.broker.node import Node
from tidelog.model import NO_OFFSET, Acks, ApiError, ErrorCode, Offset
from tidelog.partition import Partition

_DOUBT_S: Final = 0.25  # The sender waits beyond its own time-out for this answer, and not for long.


@dataclass(slots=True, kw_only=True)
class Settlement:
    """What became of one partition of a request so far."""

    partition: Partition | None = None  # Set where something was appended that has yet to settle.
    reign: int = 0
    next_offset: Offset = NO_OFFSET

    def is_settled(self, acks: Acks) -> bool:
        """Whether this partition keeps nobody waiting; a lost leadership ends the wait as well (R22)."""
        if self.partition is None:
            return True
        try:
            self.partition.check_reign(self.reign)
            return self.partition.is_settled(self.next_offset, acks)
        except ApiError as error:
            self.fail(error.code)
            return True

    def fail(self, code: ErrorCode) -> None:
        """Put an error in the place of the success that was not to be."""
        self.note_failure(code)
        self.partition = None

    @abstractmethod
    def note_failure(self, code: ErrorCode) -> None:
        """How the answer says so."""


async def until_settled(node: Node, unsettled: Sequence[Settlement], acks: Acks, *, timeout_ms: float) -> None:
    """Wait for partitions that lack acknowledgements; those that are too late fail, though their records stay in the log."""
    clock = node.runtime.clock
    deadline_ms = clock.monotonic_ms() + timeout_ms
    waiting = list(unsettled)
    keys = [one.partition.topic_partition for one in waiting if one.partition is not None]

    def is_settled() -> bool:
        waiting[:] = [one for one in waiting if not one.is_settled(acks)]
        return not waiting

    with node.replicas.produce_waiters.parked(keys, is_settled) as waiter:
        while not is_settled():
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                break
            await waiter.woken(timeout_s=left_ms / 1000)
    await _give_up(node, [one for one in waiting if not one.is_settled(acks)], acks)


async def _give_up(node: Node, waiting: Sequence[Settlement], acks: Acks) -> None:
    """Say that it takes too long, or, where somebody else may lead by now, that the sender should ask who does."""
    late = [one.partition for one in waiting if one.partition is not None]
    doubted = await node.leaderships.doubted(late, patience_s=_DOUBT_S) if late else set()
    for one in waiting:
        if not one.is_settled(acks) and one.partition is not None:
            is_doubted = one.partition.topic_partition in doubted
            one.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_doubted else ErrorCode.REQUEST_TIMED_OUT)
