"""State machines replicated through internal topics: what consumer groups (`group`) and transactions (`transaction`) have in common."""

from tidelog.coordinator.machine import (
    NO_DECISION,
    RING_AGAIN_MAX_MS,
    RING_AGAIN_MS,
    Client,
    Command,
    CoordinatorRecord,
    Decision,
    Machine,
    MalformedRecord,
    Moment,
    Reply,
    TimerChange,
    TimerKey,
    Token,
    Written,
)

__all__ = [
    "NO_DECISION",
    "RING_AGAIN_MAX_MS",
    "RING_AGAIN_MS",
    "Client",
    "Command",
    "CoordinatorRecord",
    "Decision",
    "Machine",
    "MalformedRecord",
    "Moment",
    "Reply",
    "TimerChange",
    "TimerKey",
    "Token",
    "Written",
]
