"""The test's side of a crash: drivers to be killed, queries that outlive them, and the count of what came of it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from tests.cluster.waiting import eventually
from tests.compatibility.processes import RunningProcess
from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.program import READY, STOP_SUFFIX, Plan, QueryPlan
from tests.pipeline.crash.script import PATIENCE_S, Act, Script
from tests.pipeline.hand import Hand, Row
from tests.pipeline.sink.looking import committed, open_transactions
from tests.pipeline.starting import BRIEF_JAVA
from tidelog.pipeline.demo.processes import session_members
from tidelog.simulation import SimulatedRandomness

ROOT: Final = Path(__file__).parents[3]
ROW_COUNT: Final = 30
ROWS_PER_MICRO_BATCH: Final = 10
PARTITION_COUNT: Final = 2
EXACTLY_ONCE: Final = ("batch", "2pc")
CONTROL: Final = "at-least-once"

_SETTINGS: Final = {
    "spark.driver.extraJavaOptions": BRIEF_JAVA,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "20ms",
}
_RESTARTS_MAX: Final = 4
_numbers: Final = itertools.count(1)


def fresh_name(kind: str) -> str:
    """No other topic of this run of the tests is called so."""
    return f"{kind}-{os.getpid()}-{next(_numbers)}"


class Driver:
    """A Spark driver in a process of its own. Use it as a context manager: leaving it kills it."""

    def __init__(self, home: Path, *, master: str = "local[2,4]", settings: Mapping[str, str] | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        places = {"spark.local.dir": str(home / "local"), "spark.sql.warehouse.dir": str(home / "warehouse")}
        plan = Plan(master=master, settings={**_SETTINGS, **places, **(settings or {})})
        self._is_ready = False
        self._spared: set[int] = set()
        self._process = RunningProcess(
            [sys.executable, "-m", "tests.pipeline.crash.program", plan.to_json()],
            environment={"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
            has_input=True,
            transcript=home / f"driver-{next(_numbers)}.log",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()

    def wait_ready(self) -> Self:
        """Spark has started. Meanwhile others may do something."""
        if not self._is_ready:
            self._process.wait_for(READY, timeout_s=PATIENCE_S)
            self._is_ready = True
        return self

    def start(self, *queries: Query) -> None:
        """Start queries, or start them again."""
        for query in queries:
            self._process.write_line(query.next_run().to_json())

    def finish(self, *queries: Query, restarts_max: int = _RESTARTS_MAX) -> None:
        """Start queries, and again whenever they fail, as whoever runs a query would; not for ever."""
        self.start(*queries)
        left = list(queries)
        while left:
            ended = eventually(partial(_ended, left), "one of the queries ends", timeout_s=PATIENCE_S)
            failed = [each for each in ended if each.failure() is not None]
            for query in failed:
                assert len(query.failures) <= restarts_max, f"{query.mode} fails again and again: {query.failures}"
            self.start(*failed)
            left = [each for each in left if each not in ended or each in failed]

    def kill(self, *, spared: Iterable[int] = ()) -> None:
        """SIGKILL for the driver, its JVM and all it started, but for some, which are spared from now on."""
        self._spared |= set(spared)
        eventually(lambda: not self._kill_once(), "the driver is dead")
        self._process.kill()

    def _kill_once(self) -> int:
        members = [each.pid for each in session_members(self._process.pid) if each.pid not in self._spared]
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(members)


@dataclass(kw_only=True, eq=False)
class Query:
    """A query over all its lives. `home` has its checkpoint and its script."""

    bootstrap: str
    source: str
    sink: str
    mode: str
    home: Path
    tag: str = ""
    repartition: int | None = None
    runs_on: bool = False  # until it is stopped, not only to the end of its source
    options: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _runs: int = 0

    @property
    def script(self) -> Script:
        return Script(self.home / "script")

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    @property
    def sink_id(self) -> str:
        given = self.options.get("sink.id")
        return given or f"tidelog-{json.loads((self.checkpoint / 'metadata').read_text())['id']}"

    def next_run(self) -> QueryPlan:
        self._runs += 1
        return QueryPlan(
            bootstrap=self.bootstrap,
            source=self.source,
            sink=self.sink,
            mode=self.mode,
            checkpoint=str(self.checkpoint),
            script=str(self.script.directory),
            result=str(self._result()),
            rows_per_micro_batch=ROWS_PER_MICRO_BATCH,
            tag=self.tag,
            repartition=self.repartition,
            runs_on=self.runs_on,
            options=self.options,
        )

    @property
    def has_ended(self) -> bool:
        """Whether the run that was started last has."""
        return self._result().exists()

    def stop(self) -> None:
        """Ask the run that was started last to stop; its end is for `failure` to await."""
        self._result().with_suffix(STOP_SUFFIX).touch()

    def failure(self, run: int | None = None) -> str | None:
        """Wait for the end of a run, the last one if not said otherwise: None if it got to the end of its source, or else why not."""
        result = self._result(run)
        eventually(result.exists, f"the query of mode {self.mode} ends", timeout_s=PATIENCE_S)
        failure: str | None = json.loads(result.read_text())["failure"]
        if failure is not None:
            self.failures.append(failure)
        return failure

    def wait_at(self, point: str) -> int:
        """Wait until a process of the query has come to a point; which one."""
        script = self.script
        eventually(lambda: script.has_been_at(point) or self.has_ended, f"{self.mode} is {point}", timeout_s=PATIENCE_S)
        assert script.has_been_at(point), f"{self.mode} has ended before it was {point}: {self.failure()}"
        return script.pid_at(point)

    def _result(self, run: int | None = None) -> Path:
        return self.home / f"run-{self._runs if run is None else run}.json"


def _ending(bootstrap: str, sink_id: str) -> list[str]:
    """Transactions that are decided, and whose markers are still on their way."""
    return [
        each.transactional_id
        for each in open_transactions(bootstrap)
        if each.transactional_id.startswith(sink_id) and each.state.startswith("Prepare")
    ]


def _ended(queries: Iterable[Query]) -> list[Query]:
    return [each for each in queries if each.has_ended]


@dataclass(frozen=True)
class Verdict:
    """What readers of committed records get of all that was to be written."""

    lost: list[str]
    duplicated: list[str]
    unknown: list[str]
    open_transactions: list[str]
    lag: int

    @property
    def is_exactly_once(self) -> bool:
        return self == Verdict([], [], [], [], 0)

    @property
    def is_doubled(self) -> bool:
        """All is there, and some of it more than once."""
        return bool(self.duplicated) and not self.lost and not self.unknown


class Ground:
    """A source topic with numbered records, and queries that read it."""

    def __init__(self, hand: Hand, home: Path, *, row_count: int = ROW_COUNT) -> None:
        self.hand = hand
        self.source = hand.create(fresh_name("numbers"), PARTITION_COUNT)
        self.row_count = 0
        self._home = home
        self.add_rows(row_count)

    def add_rows(self, count: int, *, partition_count: int = PARTITION_COUNT) -> None:
        """Send the next numbers."""
        numbers = range(self.row_count, self.row_count + count)
        rows = [Row(b"%d" % each, key=b"key-%d" % each, partition=each % partition_count) for each in numbers]
        self.hand.send(self.source, rows)
        self.row_count += count

    def query(self, mode: str, **given: object) -> Query:
        """A query that has not run yet, with a topic of its own."""
        sink = self.hand.create(fresh_name("out"), PARTITION_COUNT)
        home = self._home / sink
        home.mkdir(parents=True)
        bootstrap = self.hand.bootstrap
        return Query(bootstrap=bootstrap, source=self.source, sink=sink, mode=mode, home=home, **given)  # type: ignore[arg-type]

    def verdict(self, query: Query) -> Verdict:
        """Count what is in the sink topic, and look at what the query has left, once what is decided has reached every partition."""
        eventually(
            lambda: not _ending(self.hand.bootstrap, query.sink_id), f"all of {query.mode} is ended that is decided"
        )
        values = [(record.value or b"").decode() for record in self.hand.read(query.sink)]
        counts = Counter(value for value in values if value.startswith(query.tag))
        wanted = [f"{query.tag}{number}" for number in range(self.row_count)]
        still_open = [each.transactional_id for each in open_transactions(self.hand.bootstrap)]
        return Verdict(
            lost=[each for each in wanted if not counts[each]],
            duplicated=[each for each in wanted if counts[each] > 1],
            unknown=sorted(counts.keys() - set(wanted)),
            open_transactions=[each for each in still_open if each.startswith(query.sink_id)],
            lag=self.lag(query),
        )

    def lag(self, query: Query) -> int:
        """How many records the consumer group has not read as which the query appears."""
        read = {key.index: offset for key, offset in committed(self.hand.bootstrap, query.sink_id).items()}
        return sum(end - read.get(index, 0) for index, end in self.hand.end_offsets(self.source).items())

    def assert_counts(self, *queries: Query) -> None:
        """What is written exactly once is there exactly once; and the control shows duplicates, or else nothing is proven."""
        verdicts = {f"{query.mode} {query.sink}": self.verdict(query) for query in queries}
        wrong = {
            name: verdict
            for name, verdict in verdicts.items()
            if not (verdict.is_doubled if name.startswith(CONTROL) else verdict.is_exactly_once)
        }
        assert wrong == {}, f"{wrong} of {verdicts}"
        assert any(name.startswith(CONTROL) for name in verdicts), "without the control nothing is proven"


def kill_driver(home: Path, points: Sequence[tuple[Query, str]], chance: SimulatedRandomness) -> None:
    """Let a driver of its own run queries until each has come to its point, in its first or second micro-batch, and kill it."""
    for query, point in points:
        query.script.plan(point, Act.WAIT, passes=chance.below(2))
    with Driver(home) as victim:
        victim.wait_ready().start(*(query for query, _ in points))
        for query, point in points:
            query.wait_at(point)
        victim.kill()


def drawn_points(mode: str, chance: SimulatedRandomness) -> tuple[str, str]:
    """One point before the decision of a commit, and one after it. A mode that decides nothing has written all when its commit begins."""
    points = POINTS[mode]
    decided_at = points.index("after decide") if mode in EXACTLY_ONCE else 1
    return points[chance.below(decided_at)], points[decided_at + chance.below(len(points) - decided_at)]
