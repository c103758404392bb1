"""How a seed becomes a fault plan, swarm style: first what kind of cluster, which faults and how often, then the events.

A plan with a little of everything finds less than many plans with much of something; so each seed leaves whole kinds out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.simulation.faults.menu import CLIENT, MENU, REGISTRY, Family, FaultKind, Lasting, Targets
from tidelog.simulation.faults.plan import Fault, FaultPlan
from tidelog.simulation.randomness import SimulatedRandomness

T = TypeVar("T")

SECONDS: Final = 20
_QUIET_END_MS: Final = 2_000  # few new faults: healing is a phase of its own
_LATE: Final = 0.05  # how often a fault comes near the end all the same
_IN_ANOTHERS_WAKE: Final = 0.3  # how often one comes right after another
_WAKE_MS: Final = 600
_FAULTS_PER_20_S: Final = (5, 15)
_DURATIONS_MS: Final = ((50, 50), (100, 500), (500, 2_000), (2_000, 5_000), (4_000, 8_000))
_SHUTDOWN_MS: Final = (1_500, 6_000)  # a controlled one takes a while
_SURE: Final = (
    "kill",
    "bounce",
    "pause",
    "isolate",
)  # nothing keeps them from acting on a cluster that was left alone so far

# How often a family belongs to a seed, and how many of its faults come for one of another family.
_FAMILIES: Final = {
    Family.PROCESS: (0.85, 4.0),
    Family.NETWORK: (0.75, 4.0),
    Family.DISK: (0.55, 2.0),
    Family.REGISTRY: (0.55, 2.0),
    Family.CLOCK: (0.2, 1.0),
}
_RARE: Final = {"kill-all": 0.3, "power-cut-all": 0.5, "wipe": 0.4, "bit-flip": 0.4, "read-error": 0.5}

_AT_MOST: Final = {"kill-all": 2, "power-cut-all": 2, "registry-away": 3, "wipe": 2, "bit-flip": 1}  # per plan
_WAITING: Final = ("flaky", "disk-full", "write-error", "fsync-error", "read-error", "cut-after-writes")
_WAITING_MS_MIN: Final = 1_000  # those act when the right operation comes
_ALL_DOWN_MS_MAX: Final = 1_000  # nothing is learned while nobody runs

_AMOUNTS: Final[dict[str, tuple[float, float]]] = {
    "slow-link": (5, 400),
    "thin-link": (50, 2_000),
    "flaky": (0.005, 0.05),
    "lossy": (0.01, 0.3),
    "flapping": (200, 2_000),
    "disk-slow": (10, 200),
    "disk-full": (0, 20_000),
    "write-error": (1, 4),
    "fsync-error": (1, 4),
    "read-error": (1, 4),
    "bit-flip": (0, 1),
    "late-watches": (200, 3_000),
    "slow-registry": (20, 500),
    "cut-after-writes": (0, 3),
    "clock-jump": (-600_000, 600_000),
    "clock-drift": (-0.01, 0.01),
}
_WHOLE_NUMBERS: Final = frozenset(
    {"disk-full", "write-error", "fsync-error", "read-error", "cut-after-writes", "clock-jump", "flapping"}
)


def draw_plan(randomness: SimulatedRandomness, *, seconds: int = SECONDS) -> FaultPlan:
    """The plan of a seed: equal streams of chance give equal plans, whatever was drawn from them before."""
    plan = _draw_cluster(randomness.stream("plan/cluster"))
    swarm = _draw_swarm(randomness.stream("plan/swarm"), plan)
    return plan.with_faults(_draw_faults(randomness.stream("plan/faults"), plan, swarm, seconds))


# The cluster.


def _draw_cluster(chance: SimulatedRandomness) -> FaultPlan:
    brokers = _pick(chance, (3, 3, 3, 3, 4, 5))
    session_timeout_ms = 2_000 + 100 * chance.below(41)
    settings = {
        "replica.lag.time.max.ms": str(1_000 + 100 * chance.below(41)),
        "log.segment.bytes": str(_pick(chance, (1_500, 4_000, 16_000, 1 << 20))),
        "replica.high.watermark.checkpoint.interval.ms": str(_pick(chance, (50, 500, 5_000))),
        "log.flush.offset.checkpoint.interval.ms": str(_pick(chance, (100, 1_000, 60_000))),
        "auto.leader.rebalance.enable": "true" if chance.below(2) else "false",
        "leader.imbalance.check.interval.seconds": str(_pick(chance, (1, 3, 10))),
        "unclean.leader.election.enable": "false",
        "tidelog.registry.session.timeout.ms": str(session_timeout_ms),
    }
    if chance.below(2):
        settings["log.flush.interval.messages"] = "1"
    settings["log.index.interval.bytes"] = str(_pick(chance, (0, 500, 4_096)))
    return FaultPlan(brokers=brokers, settings=settings, session_timeout_ms=session_timeout_ms)


# The swarm: which kinds a seed has, and how much of each.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swarm:
    kinds: tuple[str, ...]
    weights: tuple[float, ...]
    faults_per_20_s: int
    durations_ms: tuple[tuple[int, int], ...]

    def pick(self, chance: SimulatedRandomness) -> str:
        """A kind, by its weight."""
        rest = chance.fraction() * sum(self.weights)
        for kind, weight in zip(self.kinds, self.weights, strict=True):
            rest -= weight
            if rest < 0:
                return kind
        return self.kinds[-1]


def _draw_swarm(chance: SimulatedRandomness, plan: FaultPlan) -> _Swarm:
    families = [family for family, (likely, _) in _FAMILIES.items() if chance.fraction() < likely]
    weights: dict[str, float] = {}
    for word, kind in MENU.items():
        is_in, weight = chance.fraction() < 0.6, 0.2 + chance.fraction()
        if is_in and kind.family in families and _is_possible(word, plan):
            weights[word] = weight * _RARE.get(word, 1.0)
    if not weights:
        weights["kill"] = 1.0
    totals = {family: sum(weights[w] for w in weights if MENU[w].family is family) for family in families}
    shares = {word: _FAMILIES[MENU[word].family][1] / (totals.get(MENU[word].family) or 1.0) for word in weights}
    low, high = _FAULTS_PER_20_S
    return _Swarm(
        kinds=tuple(weights),
        weights=tuple(weight * shares[word] for word, weight in weights.items()),
        faults_per_20_s=low - 1 + chance.below(high - low + 1),
        durations_ms=tuple(each for each in _DURATIONS_MS if chance.fraction() < 0.6) or _DURATIONS_MS,
    )


def _is_possible(kind: str, plan: FaultPlan) -> bool:
    """Copies do not help when all of them go dark at once; then only what was flushed is left."""
    return kind != "power-cut-all" or plan.is_flushed


# The events.


def _draw_faults(chance: SimulatedRandomness, plan: FaultPlan, swarm: _Swarm, seconds: int) -> list[Fault]:
    end_ms = seconds * 1_000
    busy_ms = max(end_ms - _QUIET_END_MS, end_ms // 2)
    count = max(swarm.faults_per_20_s * seconds // SECONDS, 1)
    # The first fault meets a cluster that nothing has happened to yet, so that every seed has a dose.
    faults = [_draw_fault(chance, plan, swarm, _pick(chance, _sure_kinds(swarm)), chance.below(busy_ms // 8) + 1)]
    for _ in range(count):
        at_ms = _draw_moment(chance, faults, busy_ms, end_ms)
        faults.append(_draw_fault(chance, plan, swarm, _next_kind(chance, swarm, faults), at_ms))
    return faults


def _draw_moment(chance: SimulatedRandomness, faults: Sequence[Fault], busy_ms: int, end_ms: int) -> int:
    """Any moment; often one right after another fault, while its victim comes back and catches up; seldom one near the end."""
    roll = chance.fraction()
    if roll < _LATE:
        return busy_ms + chance.below(end_ms - busy_ms)
    ends_ms = [fault.at_ms + fault.for_ms for fault in faults if fault.for_ms and fault.at_ms + fault.for_ms < busy_ms]
    if roll < _LATE + _IN_ANOTHERS_WAKE and ends_ms:
        return min(_pick(chance, ends_ms) + chance.below(_WAKE_MS), end_ms - 1)
    return busy_ms // 8 + 1 + chance.below(busy_ms * 7 // 8)


def _next_kind(chance: SimulatedRandomness, swarm: _Swarm, faults: Sequence[Fault]) -> str:
    """A kind of the swarm; where a plan has enough of it, something that any seed may have."""
    kind = swarm.pick(chance)
    count = sum(fault.kind == kind for fault in faults)
    return kind if count < _AT_MOST.get(kind, count + 1) else _pick(chance, _sure_kinds(swarm))


def _sure_kinds(swarm: _Swarm) -> tuple[str, ...]:
    return tuple(kind for kind in _SURE if kind in swarm.kinds) or _SURE


def _draw_fault(chance: SimulatedRandomness, plan: FaultPlan, swarm: _Swarm, kind: str, at_ms: int) -> Fault:
    means = MENU[kind]
    return Fault(
        at_ms=at_ms,
        kind=kind,
        targets=_draw_targets(chance, plan, means),
        for_ms=_draw_duration(chance, swarm, kind),
        amount=_draw_amount(chance, kind),
    )


def _draw_duration(chance: SimulatedRandomness, swarm: _Swarm, kind: str) -> int:
    if MENU[kind].lasting is Lasting.MOMENT:
        return 0
    low, high = _SHUTDOWN_MS if kind == "clean-restart" else _pick(chance, swarm.durations_ms)
    duration_ms = low + chance.below(high - low + 1)
    if kind in ("kill-all", "power-cut-all"):
        return min(duration_ms, _ALL_DOWN_MS_MAX)
    return max(duration_ms, _WAITING_MS_MIN) if kind in _WAITING else duration_ms


def _draw_amount(chance: SimulatedRandomness, kind: str) -> float:
    if kind not in _AMOUNTS:
        return 0.0
    amount = chance.between(*_AMOUNTS[kind])
    return float(round(amount)) if kind in _WHOLE_NUMBERS else round(amount, 4)


def _draw_targets(chance: SimulatedRandomness, plan: FaultPlan, means: FaultKind) -> tuple[str, ...]:
    draw: dict[Targets, Callable[[], tuple[str, ...]]] = {
        Targets.NOBODY: lambda: (),
        Targets.BROKER: lambda: (_pick(chance, plan.broker_names),),
        Targets.BROKERS: lambda: _two(chance, plan.broker_names),
        Targets.PAIR: lambda: _two(chance, (*plan.broker_names, CLIENT)),
        Targets.SIDE: lambda: _side(chance, plan),
    }
    return draw[means.targets]()


def _side(chance: SimulatedRandomness, plan: FaultPlan) -> tuple[str, ...]:
    """Some brokers, by chance with the clients, by chance with the registry; never all brokers."""
    rest = list(plan.broker_names)
    side = [rest.pop(chance.below(len(rest))) for _ in range(1 + chance.below(plan.brokers - 1))]
    extra = [name for name in (CLIENT, REGISTRY) if chance.below(2)]
    return (*sorted(side), *extra)


def _two(chance: SimulatedRandomness, names: Sequence[str]) -> tuple[str, ...]:
    rest = list(names)
    return (rest.pop(chance.below(len(rest))), rest[chance.below(len(rest))])


def _pick(chance: SimulatedRandomness, choices: Sequence[T]) -> T:
    return choices[chance.below(len(choices))]
