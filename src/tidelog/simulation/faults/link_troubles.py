"""What several faults do to the same links: each link is as bad as the worst of them, and well again after the last."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.simulation.links import LATENCY_MS, NetworkFaults


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trouble:
    """What one fault does to the links of some pairs, each pair one way."""

    pairs: tuple[tuple[str, str], ...]
    is_cut: bool = False
    latency_ms: float = 0.0
    bytes_per_ms: float | None = None
    reset_chance: float = 0.0
    loss_chance: float = 0.0


@dataclass(slots=True)
class LinkTroubles:
    """All troubles of the network that are under way."""

    _fabric: NetworkFaults
    _active: list[Trouble] = field(default_factory=list)

    def begin(self, trouble: Trouble) -> None:
        """One more."""
        self._active.append(trouble)
        self._apply(trouble)

    def end(self, trouble: Trouble) -> None:
        """One is over; a trouble that is over already is left alone."""
        if trouble in self._active:
            self._active.remove(trouble)
            self._apply(trouble)

    def _apply(self, changed: Trouble) -> None:
        for source, target in changed.pairs:
            here = [trouble for trouble in self._active if (source, target) in trouble.pairs]
            link = self._fabric.link(source, target)
            slowest = max((trouble.latency_ms for trouble in here), default=0.0)
            link.latency_ms = (slowest / 2, slowest) if slowest else LATENCY_MS
            link.bytes_per_ms = min((each.bytes_per_ms for each in here if each.bytes_per_ms), default=None)
            if link.bytes_per_ms is None:
                link.free_at_ms = 0.0
            link.reset_chance = max((trouble.reset_chance for trouble in here), default=0.0)
            link.loss_chance = max((trouble.loss_chance for trouble in here), default=0.0)
            is_cut = any(trouble.is_cut for trouble in here)
            if is_cut:
                self._fabric.cut(source, target)
            elif link.is_cut:
                self._fabric.mend(source, target)


def both_ways(ones: tuple[str, ...], others: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Every link between two groups."""
    return tuple(pair for one in ones for other in others for pair in ((one, other), (other, one)))
