"""What is tried on a simulated cluster, and what came of it. As JSON both travel between processes and into files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from tidelog.simulation.faults.doses import Doses
from tidelog.simulation.faults.plan import FaultPlan

LEADER_EPOCH: Final = "leader-epoch"
HIGH_WATERMARK: Final = "high-watermark"
TRUNCATIONS: Final = (LEADER_EPOCH, HIGH_WATERMARK)
SECONDS: Final = 20

SIMULATOR: Final = "the simulator itself"
"""Who speaks when the tool failed, and nothing is known of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run to be made. Equal trials give equal verdicts, to the last line of the trace."""

    seed: int
    seconds: int = SECONDS  # of load and faults; starting and healing come on top
    plan: FaultPlan | None = None  # None: drawn from the seed
    truncation: str = LEADER_EPOCH

    def to_json(self) -> dict[str, object]:
        """The trial as an object of JSON."""
        return {
            "seed": self.seed,
            "seconds": self.seconds,
            "truncation": self.truncation,
            "plan": None if self.plan is None else json.loads(self.plan.to_json()),
        }

    @classmethod
    def from_json(cls, read: Mapping[str, object]) -> Trial:
        """What `to_json` wrote."""
        plan = read["plan"]
        return cls(
            seed=cast("int", read["seed"]),
            seconds=cast("int", read["seconds"]),
            truncation=cast("str", read["truncation"]),
            plan=None if plan is None else FaultPlan.from_json(json.dumps(plan)),
        )

    def command(self, plan_file: str | None = None) -> str:
        """What a person types to see the same again."""
        words = [f"tidelog sim run --seed {self.seed}"]
        if self.seconds != SECONDS:
            words.append(f"--seconds {self.seconds}")
        if self.truncation != LEADER_EPOCH:
            words.append(f"--truncation {self.truncation}")
        if plan_file is not None:
            words.append(f"--faults {plan_file}")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The first thing that went wrong: who says so, what was seen, and when."""

    checker: str
    sentence: str
    at_ms: float

    def __str__(self) -> str:
        return f"{self.checker}: {self.sentence} (at {self.at_ms:.3f} ms)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a trial."""

    trial: Trial
    plan: FaultPlan  # as given, or as drawn
    violation: Violation | None = None
    doses: Doses = field(default_factory=Doses)
    digest: str = ""
    trace: tuple[str, ...] = ()
    simulated_ms: float = 0.0
    acknowledged: int = 0
    read: int = 0
    callbacks: int = 0

    @property
    def is_ok(self) -> bool:
        """Whether nothing went wrong."""
        return self.violation is None

    @property
    def is_dosed(self) -> bool:
        """Whether any fault acted; a run without one proves nothing."""
        return self.doses.injected_total > 0

    def to_json(self, *, with_trace: bool = False) -> dict[str, object]:
        """The verdict as an object of JSON."""
        found = self.violation
        return {
            "trial": self.trial.to_json(),
            "plan": json.loads(self.plan.to_json()),
            "is_ok": self.is_ok,
            "violation": None
            if found is None
            else {"checker": found.checker, "sentence": found.sentence, "at_ms": found.at_ms},
            "doses": {
                kind: {"drawn": drawn, "injected": self.doses.injected.get(kind, 0)}
                for kind, drawn in self.doses.drawn.items()
            },
            "digest": self.digest,
            "simulated_ms": self.simulated_ms,
            "acknowledged": self.acknowledged,
            "read": self.read,
            "callbacks": self.callbacks,
            **({"trace": list(self.trace)} if with_trace else {}),
        }

    @classmethod
    def from_json(cls, read: Mapping[str, object]) -> Verdict:
        """What `to_json` wrote."""
        violation = cast("Mapping[str, object] | None", read["violation"])
        return cls(
            trial=Trial.from_json(cast("Mapping[str, object]", read["trial"])),
            plan=FaultPlan.from_json(json.dumps(read["plan"])),
            violation=None if violation is None else _violation(violation),
            doses=_doses(cast("Mapping[str, Mapping[str, int]]", read["doses"])),
            digest=cast("str", read["digest"]),
            trace=tuple(cast("list[str]", read.get("trace", []))),
            simulated_ms=cast("float", read["simulated_ms"]),
            acknowledged=cast("int", read["acknowledged"]),
            read=cast("int", read["read"]),
            callbacks=cast("int", read["callbacks"]),
        )


def _violation(read: Mapping[str, object]) -> Violation:
    return Violation(
        checker=cast("str", read["checker"]),
        sentence=cast("str", read["sentence"]),
        at_ms=cast("float", read["at_ms"]),
    )


def _doses(read: Mapping[str, Mapping[str, int]]) -> Doses:
    doses = Doses()
    for kind, counts in read.items():
        for _ in range(counts["drawn"]):
            doses.draw(kind)
        for _ in range(counts["injected"]):
            doses.inject(kind)
    return doses
