"""Everything that can be done to a simulated cluster, in one table: what each word means, whom it hits, what its amount says."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

CLIENT: Final = "client"
REGISTRY: Final = "registry"
_MINUTE_MS: Final = 60_000


class Family(enum.Enum):
    """What is hit; a seed turns whole families on and off."""

    PROCESS = "process"
    NETWORK = "network"
    DISK = "disk"
    REGISTRY = "registry"
    CLOCK = "clock"


class Targets(enum.Enum):
    """Whom a kind of fault names; the value is how the accepted targets are told to a person."""

    NOBODY = "no targets"
    BROKER = "one broker"
    BROKERS = "two different brokers"
    PAIR = "two different nodes (brokers or client)"
    SIDE = "the nodes of one side (brokers, client, registry), at least one, not every broker with the client"


class Lasting(enum.Enum):
    """Whether there is something to undo; the value is how the accepted for_ms is told to a person."""

    MOMENT = "0, because there is nothing to undo"
    UNDONE = "at least 1, or 0: until everything is healed"
    TIMED = "from 1 to 60000, because it ends by itself"


class Damage(enum.Enum):
    """Whether a broker that keeps its promises only through copies may lose its own."""

    NEVER = "never"
    UNFLUSHED = "unless every message is flushed"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """What the number of a fault says, and which ones make sense."""

    meaning: str
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One word of the menu."""

    family: Family
    meaning: str
    targets: Targets
    lasting: Lasting = Lasting.UNDONE
    amount: Amount | None = None
    damage: Damage = Damage.NEVER


def _process(
    meaning: str,
    targets: Targets = Targets.BROKER,
    lasting: Lasting = Lasting.UNDONE,
    *,
    damage: Damage = Damage.NEVER,
) -> FaultKind:
    return FaultKind(family=Family.PROCESS, meaning=meaning, targets=targets, lasting=lasting, damage=damage)


def _network(
    meaning: str, targets: Targets, lasting: Lasting = Lasting.UNDONE, *, amount: Amount | None = None
) -> FaultKind:
    return FaultKind(family=Family.NETWORK, meaning=meaning, targets=targets, lasting=lasting, amount=amount)


def _disk(
    meaning: str,
    lasting: Lasting = Lasting.UNDONE,
    *,
    amount: Amount | None = None,
    damage: Damage = Damage.NEVER,
) -> FaultKind:
    return FaultKind(
        family=Family.DISK, meaning=meaning, targets=Targets.BROKER, lasting=lasting, amount=amount, damage=damage
    )


def _registry(
    meaning: str, targets: Targets, lasting: Lasting = Lasting.UNDONE, *, amount: Amount | None = None
) -> FaultKind:
    return FaultKind(family=Family.REGISTRY, meaning=meaning, targets=targets, lasting=lasting, amount=amount)


_LATENCY: Final = Amount(meaning="the longest latency, in ms", lowest=0.1, highest=10_000)
_CHANCE: Final = Amount(meaning="the chance of each chunk", lowest=0.000_1, highest=0.9)
_FAILURES: Final = Amount(meaning="how many operations fail", lowest=1, highest=1_000)

MENU: Final[dict[str, FaultKind]] = {
    # Processes.
    "kill": _process("the process dies (kill -9), and starts again at the end"),
    "bounce": _process("the process dies and starts again at once, before anybody noticed", lasting=Lasting.MOMENT),
    "kill-all": _process("every broker dies (kill -9), and starts again at the end", Targets.NOBODY),
    "power-cut": _process(
        "the machine goes dark: unflushed writes are lost or torn, peers hear nothing", damage=Damage.UNFLUSHED
    ),
    "power-cut-all": _process("every machine goes dark at once", Targets.NOBODY, damage=Damage.UNFLUSHED),
    "pause": _process("the process stands still (SIGSTOP) and does not know it"),
    "clean-restart": _process("a controlled shutdown, and a start at the end"),
    # The network.
    "partition": _network("no bytes pass, either way, between the nodes named and all others", Targets.SIDE),
    "isolate": _network("no bytes pass between a broker and every other node, clients too", Targets.BROKER),
    "one-way-cut": _network("no bytes pass from the first to the second; back they do", Targets.PAIR),
    "partial-cut": _network("no bytes pass between two brokers; both reach everybody else", Targets.BROKERS),
    "client-cut": _network("no bytes pass between the clients and one broker", Targets.BROKER),
    "slow-link": _network("bytes between two nodes take longer", Targets.PAIR, amount=_LATENCY),
    "thin-link": _network(
        "few bytes at a time pass between two nodes",
        Targets.PAIR,
        amount=Amount(meaning="bytes per ms", lowest=0.1, highest=1_000_000),
    ),
    "reset": _network("every connection between two nodes is reset, once", Targets.PAIR, Lasting.MOMENT),
    "flaky": _network("chunks between two nodes reset their connections", Targets.PAIR, amount=_CHANCE),
    "lossy": _network("chunks between two nodes are lost and come after retransmission", Targets.PAIR, amount=_CHANCE),
    "flapping": _network(
        "the link between two nodes goes down and up again and again",
        Targets.PAIR,
        amount=Amount(meaning="how long each turn takes, in ms, half of it down", lowest=2, highest=60_000),
    ),
    # Disks.
    "disk-slow": _disk("every flush and read of the disk threads takes longer", amount=_LATENCY),
    "disk-stall": _disk("the disk threads begin nothing new", Lasting.TIMED),
    "disk-full": _disk(
        "the disk has room for little more",
        amount=Amount(meaning="bytes still free", lowest=0, highest=1 << 30),
    ),
    "write-error": _disk(
        "writes fail (EIO); the machine is rebooted at the end", amount=_FAILURES, damage=Damage.ALWAYS
    ),
    "fsync-error": _disk(
        "flushes fail (EIO) and forget what they covered; the machine is rebooted at the end",
        amount=_FAILURES,
        damage=Damage.ALWAYS,
    ),
    "read-error": _disk("reads fail (EIO); the machine is rebooted at the end", amount=_FAILURES, damage=Damage.ALWAYS),
    "bit-flip": _disk(
        "a bit of a stored batch turns, for good; a disk that is still rotten at the end is replaced by an empty one",
        amount=Amount(meaning="which batch, as a share of all that the broker has stored", lowest=0, highest=1),
        damage=Damage.ALWAYS,
    ),
    "wipe": _disk("the machine goes dark and comes back with an empty disk", damage=Damage.ALWAYS),
    # The registry.
    "registry-cut": _registry("a broker cannot reach the registry; if that lasts, its session expires", Targets.BROKER),
    "registry-away": _registry("nobody can reach the registry; no session expires meanwhile", Targets.NOBODY),
    "session-expire": _registry("the session of a broker is ended against its will", Targets.BROKER, Lasting.MOMENT),
    "depose": _registry(
        "somebody deletes the controller's node, as operators do; the controller hears of it at the end",
        Targets.NOBODY,
    ),
    "late-watches": _registry(
        "watches are told later",
        Targets.NOBODY,
        amount=Amount(meaning="the longest delay of a watch, in ms", lowest=1, highest=60_000),
    ),
    "slow-registry": _registry("calls to the registry take longer", Targets.NOBODY, amount=_LATENCY),
    "cut-after-writes": _registry(
        "after so many more writes the registry is away; whether the next one happened nobody is told",
        Targets.NOBODY,
        amount=Amount(meaning="writes that are still answered", lowest=0, highest=10_000),
    ),
    # Clocks.
    "clock-jump": FaultKind(
        family=Family.CLOCK,
        meaning="somebody sets the wall clock of a broker; it stays so",
        targets=Targets.BROKER,
        lasting=Lasting.MOMENT,
        amount=Amount(meaning="ms forwards, or back if negative", lowest=-60 * _MINUTE_MS, highest=60 * _MINUTE_MS),
    ),
    "clock-drift": FaultKind(
        family=Family.CLOCK,
        meaning="the wall clock of a broker runs fast or slow",
        targets=Targets.BROKER,
        amount=Amount(meaning="ms gained per ms, lost if negative", lowest=-0.1, highest=0.1),
    ),
}


def describe_menu() -> str:
    """The menu as a person reads it in a help text: one word a paragraph."""
    lines: list[str] = []
    for word, kind in MENU.items():
        lines.append(f"{word}: {kind.meaning}")
        lines.append(f"    targets: {kind.targets.value}")
        if kind.amount is not None:
            lines.append(f"    amount: {kind.amount.meaning} ({kind.amount.lowest:g} to {kind.amount.highest:g})")
        if kind.lasting is not Lasting.MOMENT:
            lines.append(f"    for_ms: {kind.lasting.value}")
        if kind.damage is not Damage.NEVER:
            lines.append(f"    damages its broker: {kind.damage.value}")
    return "\n".join(lines)
