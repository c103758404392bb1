"""One trial from its seed to its verdict: a cluster starts, clients load it, faults hit it, it heals, and everything is looked at.

run(Trial(seed=7)).is_ok

The checkers look all the time. When the faults end, everything must heal within a bound (I12), and go on without any one broker; then the end
checkers compare what clients were told with what is left, and copies of the disks are recovered as after a crash (I13). The first thing that
is wrong is the verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidelog.client import ClientError
from tidelog.simulation.checkers import (
    CheckerDied,
    InvariantBroken,
    all_checkers,
    cluster_checkers,
    end_checkers,
    named,
    recovery_repeats,
)
from tidelog.simulation.checkers.ending import ending_of
from tidelog.simulation.checkers.transactions_end import undecided
from tidelog.simulation.cluster import LOG_DIR, SimulatedCluster
from tidelog.simulation.failures import Deadlock, Forbidden, Livelock, SimulationFailed, told
from tidelog.simulation.faults.doses import Doses
from tidelog.simulation.faults.drawing import draw_plan
from tidelog.simulation.faults.injector import Injector
from tidelog.simulation.faults.plan import FaultPlan
from tidelog.simulation.loop import OwnedTask
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.registry_session import RegistryTiming
from tidelog.simulation.verdict import HIGH_WATERMARK, SIMULATOR, Trial, Verdict, Violation
from tidelog.simulation.workloads import (
    CHURNED,
    STOP_WITHIN_MS,
    History,
    Workload,
    default_workloads,
    is_promised,
    laggards,
    make_topics,
    prepare,
)

__all__ = ["Progress", "Trial", "Verdict", "Violation", "plan_of", "run", "violation_of"]

LIVENESS: Final = "I12 everything heals when faults stop"
WITHOUT_ONE: Final = "I12 the others go on without one broker"
HEAL_WITHIN_MS: Final = 60_000
SETTLE_WITHIN_MS: Final = 30_000
_POLL_MS: Final = 50
_STEPS_AGAIN: Final = 2
_LAB: Final = {"tidelog.lab.enable": "true", "replication.truncation": HIGH_WATERMARK}
_FAILURES: Final = ((Livelock, "livelock"), (Deadlock, "deadlock"), (Forbidden, "the real world was touched"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come."""

    phase: str
    simulated_ms: float
    acknowledged: int
    injected: int


OnProgress: TypeAlias = Callable[[Progress], None]


class _NotInTime(Exception):
    """Something that must happen did not, in as long as it may take; which promise that breaks, and what was missing."""

    def __init__(self, checker: str, sentence: str) -> None:
        super().__init__(sentence)
        self.checker = checker


def plan_of(trial: Trial) -> FaultPlan:
    """The plan of a trial: the one it was given, or the one its seed draws."""
    return trial.plan or draw_plan(SimulatedRandomness(f"plan/{trial.seed}"), seconds=trial.seconds)


def run(trial: Trial, *, on_progress: OnProgress | None = None) -> Verdict:
    """Make one run. Equal trials give equal verdicts; `on_progress` hears of every phase and of every second of load."""
    return _Run(trial, on_progress or (lambda _: None)).verdict()


class _Run:
    def __init__(self, trial: Trial, on_progress: OnProgress) -> None:
        self._trial = trial
        self._plan = plan_of(trial)
        self._on_progress = on_progress
        self._cluster = SimulatedCluster(
            trial.seed,
            brokers=self._plan.brokers,
            settings={**self._plan.settings, **(_LAB if trial.truncation == HIGH_WATERMARK else {})},
            timing=RegistryTiming(session_timeout_ms=self._plan.session_timeout_ms),
        )
        self._history = History()
        self._cluster.checkers = [
            *all_checkers(may_lose=lambda topic: not is_promised(topic)),
            *cluster_checkers(self._cluster, self._history),
        ]
        self._doses = Doses()
        self._injector = Injector(self._cluster, self._plan, self._doses)
        self._workloads: list[Workload] = []
        self._tasks: dict[str, OwnedTask[None]] = {}
        self._stopped: set[str] = set()

    def verdict(self) -> Verdict:
        """Run, and say what came of it."""
        violation = self._violation()
        world = self._cluster.world
        return Verdict(
            trial=self._trial,
            plan=self._plan,
            violation=violation,
            doses=self._doses,
            digest=world.digest(),
            trace=tuple(world.trace.lines),
            simulated_ms=self._now_ms,
            acknowledged=self._history.acknowledged_count,
            read=self._history.read_count,
            callbacks=world.loop.callback_count,
        )

    def _violation(self) -> Violation | None:
        try:
            prepare(self._cluster)
            with self._cluster:
                self._start()
                self._load()
                self._heal()
                self._do_without_one()
                self._settle()
                self._judge()
                self._phase("stop the brokers")
        except InvariantBroken as broken:
            return Violation(checker=broken.checker, sentence=broken.sentence, at_ms=broken.at_ms)
        except SimulationFailed as failed:
            return violation_of(failed, self._now_ms)
        except _NotInTime as late:
            return Violation(checker=late.checker, sentence=str(late), at_ms=self._now_ms)
        except (TimeoutError, ClientError) as error:
            return Violation(checker=LIVENESS, sentence=str(error) or repr(error), at_ms=self._now_ms)
        except CheckerDied as died:
            return Violation(checker=SIMULATOR, sentence=str(died), at_ms=self._now_ms)
        except Exception as error:  # noqa: BLE001  # The seed has failed, and its trace is worth more than ours.
            return Violation(checker=SIMULATOR, sentence=f"the run died of {told(error)}", at_ms=self._now_ms)
        return None

    # The phases.

    def _start(self) -> None:
        self._phase("start the brokers")
        self._cluster.until_ready()
        self._phase("create the topics")
        self._cluster.tell(lambda runtime: make_topics(self._cluster, self._plan, runtime))

    def _load(self) -> None:
        self._phase("load and faults")
        cluster = self._cluster
        randomness = cluster.world.randomness.stream("workloads")
        self._workloads = default_workloads(cluster, self._plan, self._history, randomness)
        for workload in self._workloads:
            task = cluster.client.spawn(workload.run(cluster.client.runtime))
            self._tasks[workload.name] = self._watched(task, f"the workload {workload.name}")
        self._watched(cluster.world.loop.create_task(self._injector.run()), "the injector of faults")
        for _ in range(self._trial.seconds):
            cluster.world.run_for_ms(1000)
            self._tell("load and faults")

    def _heal(self) -> None:
        self._phase("heal")
        self._injector.heal()
        for workload in self._workloads:
            workload.settle()
        before = self._steps()
        self._until(lambda: self._not_flowing(before), HEAL_WITHIN_MS)

    def _do_without_one(self) -> None:
        """A broker dies and stays away. What has enough other replicas is led, written and read again within the bound; then it is back."""
        self._stop([workload for workload in self._workloads if workload.is_administering])
        self._until(self._not_in_sync, HEAL_WITHIN_MS)
        if not self._can_spare_one():
            return
        chance = self._cluster.world.randomness.stream("without one")
        broker = list(self._cluster.brokers.values())[chance.below(self._plan.brokers)]
        self._phase(f"go on without broker {broker.broker_id}")
        if chance.below(2):
            broker.power_cut()
        else:
            broker.kill()
        before = self._steps()
        self._until(lambda: self._not_going_on(before), HEAL_WITHIN_MS, WITHOUT_ONE)
        self._phase("heal once more")
        broker.restart()
        before = self._steps()
        self._until(lambda: self._not_flowing(before), HEAL_WITHIN_MS)

    def _settle(self) -> None:
        """The other writers stop first, then the replicas become equal, what is open is decided (I9), and the readers come to the end."""
        self._phase("let everything come to rest")
        self._stop([workload for workload in self._workloads if not workload.is_reading])
        self._until(self._not_settled, SETTLE_WITHIN_MS)
        self._stop([workload for workload in self._workloads if workload.is_reading])

    def _judge(self) -> None:
        self._phase("look at what is left")
        self._until(self._not_whole, SETTLE_WITHIN_MS)  # A leadership may have moved while the readers stopped.
        ending = ending_of(self._cluster, self._history)
        for checker in end_checkers():
            with named(checker.name):
                for sentence in checker.verdict(ending):
                    raise InvariantBroken(checker.name, sentence, self._now_ms)
        self._phase("recover copies of the disks")
        snapshot = self._cluster.snapshot()  # Coordinators may have written something since: that a session is over.
        for broker in self._cluster.brokers.values():
            with named(recovery_repeats.NAME):
                for sentence in recovery_repeats.recovery_violations(broker, snapshot, LOG_DIR):
                    raise InvariantBroken(recovery_repeats.NAME, sentence, self._now_ms)

    # What may be missing.

    def _not_flowing(self, before: dict[str, int]) -> Iterator[str]:
        for broker in self._cluster.brokers.values():
            if not broker.is_ready:
                yield f"broker {broker.broker_id} does not serve"
        yield from self._not_in_sync()
        yield from self._not_stepping(before)

    def _not_in_sync(self) -> Iterator[str]:
        for topic_partition, state in self._cluster.snapshot().states.items():
            if sorted(state.isr) != sorted(state.assignment):
                yield f"{topic_partition} has the ISR {list(state.isr)} of {list(state.assignment)}"

    def _not_stepping(self, before: dict[str, int]) -> Iterator[str]:
        for workload in self._workloads:
            if workload.name not in self._stopped and workload.steps < before[workload.name] + _STEPS_AGAIN:
                yield f"the workload {workload.name} does not go on"

    def _not_going_on(self, before: dict[str, int]) -> Iterator[str]:
        for topic_partition, state in self._cluster.snapshot().states.items():
            if len(state.assignment) > 1 and (
                state.leader < 0 or not self._cluster.brokers[state.leader].node.is_running
            ):
                yield f"{topic_partition} has the leader {state.leader}"
        yield from self._not_stepping(before)

    def _can_spare_one(self) -> bool:
        """Whether every partition that the workloads use keeps enough replicas, whoever dies."""
        states = self._cluster.snapshot().states
        return all(
            len(states[partition.topic_partition].assignment) > partition.log.config.min_insync_replicas
            for broker in self._cluster.brokers.values()
            for partition in broker.partitions()
            if partition.topic_partition in states and not partition.topic_partition.topic.startswith(CHURNED)
        )

    def _not_settled(self) -> Iterator[str]:
        yield from self._not_whole()
        snapshot = self._cluster.snapshot()
        yield from undecided(snapshot)
        yield from laggards(self._workloads, snapshot)

    def _not_whole(self) -> Iterator[str]:
        snapshot = self._cluster.snapshot()
        for topic_partition in snapshot.states:
            if not snapshot.is_whole(topic_partition):
                yield f"the replicas of {topic_partition} are not equal and in sync"

    # How it is done.

    @property
    def _now_ms(self) -> float:
        return self._cluster.world.loop.time() * 1000

    def _phase(self, name: str) -> None:
        self._cluster.world.trace.add("world", f"phase: {name}")
        self._tell(name)

    def _tell(self, phase: str) -> None:
        self._on_progress(
            Progress(
                phase=phase,
                simulated_ms=self._now_ms,
                acknowledged=self._history.acknowledged_count,
                injected=self._doses.injected_total,
            )
        )

    def _steps(self) -> dict[str, int]:
        return {workload.name: workload.steps for workload in self._workloads}

    def _until(self, missing: Callable[[], Iterator[str]], within_ms: float, checker: str = LIVENESS) -> None:
        """Let time pass until nothing is missing."""
        deadline_ms = self._now_ms + within_ms
        while (first := next(missing(), None)) is not None:
            if self._now_ms >= deadline_ms:
                raise _NotInTime(checker, f"{within_ms / 1000:.0f} s later still {first}")
            self._cluster.world.run_for_ms(_POLL_MS)

    def _stop(self, workloads: list[Workload]) -> None:
        for workload in workloads:
            workload.stop()
            self._stopped.add(workload.name)

        def running() -> Iterator[str]:
            yield from (
                f"the workload {each.name} does not stop" for each in workloads if not self._tasks[each.name].done()
            )

        self._until(running, STOP_WITHIN_MS)

    def _watched(self, task: OwnedTask[None], what: str) -> OwnedTask[None]:
        """A task whose failure fails the run at once, though it is held and so never thrown away."""
        loop = self._cluster.world.loop

        def ended(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                loop.fail(task.owner, f"{what} raised", error)

        task.add_done_callback(ended, context=loop.world.context)
        return task


def violation_of(failed: SimulationFailed, now_ms: float) -> Violation:
    """The checker that spoke inside of a failure, or the failure itself."""
    cause = failed.__cause__
    if isinstance(cause, InvariantBroken):
        return Violation(checker=cause.checker, sentence=cause.sentence, at_ms=cause.at_ms)
    if isinstance(cause, CheckerDied):
        return Violation(checker=SIMULATOR, sentence=str(cause), at_ms=now_ms)
    kind = next((name for each, name in _FAILURES if isinstance(failed, each)), "a task died")
    return Violation(checker=kind, sentence=str(failed), at_ms=now_ms)
