"""How much memory requests may hold, all connections together.

What counts are bytes received: frames under way, frames that queue behind a request that waits, and produced records that wait to be
settled. Once they reach the bound, nobody is read any more, with one exception: the frame that began first is read to its end, then the
next, so that those who send get through one by one, whatever the sizes. A frame that does not grow in its turn, and requests queued
behind one that waits for ever, are what a hostile client can hold the budget with: when that happens, connections are ended, largest
holder first, until there is room. Producers who wait for our disk are never ended for it.

Too many queued requests are a milder matter: connections are then read only while none of their requests is in work, as Kafka always does.
"""

from __future__ import annotations

from typing import Final, Protocol

from tidelog.runtime import Clock

TURN_MS: Final = 1_000
TURN_BYTES: Final = 1 << 20
"""What the one who is read must send in each such time, or the turn is wasted."""
BLOCKED_MS_MAX: Final = 5_000


class BudgetHolder(Protocol):
    """A connection as the budget sees it."""

    @property
    def can_read_on(self) -> bool:
        """Whether its own limits would let its unfinished frame be read."""
        ...

    @property
    def missing_bytes(self) -> int:
        """What its unfinished frame still lacks."""
        ...

    @property
    def reclaimable_bytes(self) -> int:
        """What would be free if it were ended now."""
        ...

    def regulate_reading(self) -> None:
        """The budget's verdict has changed: stop reading, or go on."""
        ...

    def reclaim(self) -> None:
        """End it, and give back what it holds at once."""
        ...


class RequestBudget:
    """Bytes and requests held by all connections of a broker. `None` sets no bound on bytes."""

    def __init__(self, clock: Clock, *, bytes_max: int | None, requests_max: int) -> None:
        self._clock = clock
        self._bytes_max = bytes_max
        self._requests_max = requests_max
        self._holders: dict[BudgetHolder, None] = {}
        self._unfinished: dict[BudgetHolder, None] = {}  # Who has sent part of a frame, first come first.
        self._turn: BudgetHolder | None = None
        self._turn_missing_bytes = 0  # What its frame lacked at `_since_ms`.
        self._since_ms = 0.0  # When the turn was given, or last looked at.
        self._spent_ms = 0.0
        self.held_bytes = 0
        self.held_requests = 0
        self.is_spent = False
        """Whether connections are no longer read."""
        self.is_crowded = False
        """Whether connections are read only while they have nothing in work."""

    def join(self, holder: BudgetHolder) -> None:
        """A connection begins to count."""
        self._holders[holder] = None

    def leave(self, holder: BudgetHolder) -> None:
        """A connection is over; it has given back what it held."""
        self._holders.pop(holder, None)
        self.finish_frame(holder)

    def begin_frame(self, holder: BudgetHolder) -> None:
        """The holder has sent the first part of a frame."""
        self.finish_frame(holder)
        self._unfinished[holder] = None

    def finish_frame(self, holder: BudgetHolder) -> None:
        """The holder's frame is whole, or will never be."""
        self._unfinished.pop(holder, None)
        if holder is self._turn:
            self._give_turn()

    def hold(self, bytes_more: int, requests_more: int) -> None:
        """Count what somebody holds more, or (negative) less than before."""
        self.held_bytes += bytes_more
        self.held_requests += requests_more
        is_spent = self._bytes_max is not None and _is_reached(self.held_bytes, self._bytes_max, was=self.is_spent)
        is_crowded = _is_reached(self.held_requests, self._requests_max, was=self.is_crowded)
        if is_spent == self.is_spent and is_crowded == self.is_crowded:
            return
        has_turned = is_spent != self.is_spent
        self.is_spent, self.is_crowded = is_spent, is_crowded
        if has_turned:
            self._turn = None
            self._spent_ms = self._clock.monotonic_ms()
        for holder in list(self._holders):
            holder.regulate_reading()
        if has_turned:
            self._give_turn()

    def may_read(self, holder: BudgetHolder) -> bool:
        """Whether this connection is read now."""
        return not self.is_spent or holder is self._turn

    def reclaim_if_blocked(self) -> None:
        """End connections if the budget is spent and nothing moves; called about once a second."""
        now_ms = self._clock.monotonic_ms()
        if not self.is_spent or now_ms - self._since_ms < TURN_MS:
            return
        if self._turn is None:
            if not self._give_turn() and now_ms - self._spent_ms > BLOCKED_MS_MAX:
                self._reclaim([])
        elif self._turn_missing_bytes - self._turn.missing_bytes < TURN_BYTES:
            self._reclaim([self._turn])
        else:
            self._note_turn()

    def _give_turn(self) -> bool:
        """Let the eldest unfinished frame be read; False where there is none that could be."""
        self._turn = (
            next((holder for holder in self._unfinished if holder.can_read_on), None) if self.is_spent else None
        )
        self._note_turn()
        if self._turn is not None:
            self._turn.regulate_reading()
        return self._turn is not None

    def _note_turn(self) -> None:
        self._since_ms = self._clock.monotonic_ms()
        self._turn_missing_bytes = 0 if self._turn is None else self._turn.missing_bytes

    def _reclaim(self, first: list[BudgetHolder]) -> None:
        """End holders until most of the budget is free, so that the next attack has to send it all again; `first` whatever they hold."""
        by_size = sorted(self._holders, key=lambda holder: holder.reclaimable_bytes, reverse=True)
        for holder in [*first, *by_size]:
            if self._bytes_max is None or self.held_bytes * 4 <= self._bytes_max:
                return
            if holder in first or holder.reclaimable_bytes > 0:
                holder.reclaim()


def _is_reached(held: int, bound: int, *, was: bool) -> bool:
    """Whether a bound is reached; once it was, only an eighth below it is not."""
    return held * 8 >= bound * 7 if was else held >= bound
