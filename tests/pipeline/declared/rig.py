"""Pipelines of the tests: written to a directory, run by the command as anybody would, and counted by a reader of committed records."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.cluster.waiting import eventually
from tests.compatibility.processes import RunningProcess
from tests.pipeline.hand import Hand, Row
from tests.pipeline.starting import BRIEF_JAVA
from tidelog.pipeline.declared.leftovers import leftovers
from tidelog.pipeline.declared.looking import run_at
from tidelog.pipeline.declared.state import RunView

PATIENCE_S: Final = 500
_numbers: Final = itertools.count(1)

_HEAD: Final = """\
import os
from pyspark import pipelines as dp
BOOTSTRAP = {"kafka.bootstrap.servers": os.environ["TIDELOG_BOOTSTRAP"]}


def numbers():
    options = {**BOOTSTRAP, "subscribe": "%s", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "%d", "columns": "key,value"}
    return spark.readStream.format("tidelog").options(**options).load()
"""

_FLOW: Final = """

dp.create_sink("{name}_out", "tidelog", {{**BOOTSTRAP, "topic": "{topic}"}})


@dp.append_flow(target="{name}_out", name="{name}")
def {name}():
    return numbers().selectExpr("key", "{expression} AS value")
"""


class Pipeline:
    """A pipeline that copies a topic of numbers to topics, one for each flow."""

    def __init__(self, hand: Hand, home: Path, *, rows_per_micro_batch: int = 1_000) -> None:
        self.hand = hand
        self.home = home
        self.name = f"numbers-{os.getpid()}-{next(_numbers)}"
        self.source = hand.create(f"{self.name}-in", 2)
        self.topics: dict[str, str] = {}
        self._rows_per_micro_batch = rows_per_micro_batch
        self._count = 0
        self._environment = {"TIDELOG_BOOTSTRAP": hand.bootstrap, "XDG_STATE_HOME": str(home / "state")}
        (home / "transformations").mkdir(parents=True)
        self.storage = home / "storage"
        (home / "spark-pipeline.yml").write_text(
            f"name: {self.name}\nstorage: storage\nlibraries: [{{glob: {{include: transformations/**}}}}]\n"
            f'configuration: {{spark.driver.memory: 1g, spark.driver.extraJavaOptions: "{BRIEF_JAVA}"}}\n'
        )

    def declare(self, *flows: str, expression: str = "CAST(value AS STRING)", more: str = "") -> None:
        """These flows and no others, each with a topic of its own, made when it is first declared."""
        for name in flows:
            if name not in self.topics:
                self.topics[name] = self.hand.create(f"{self.name}-{name}", 2)
        self.write(
            "".join(_FLOW.format(name=name, topic=self.topics[name], expression=expression) for name in flows) + more
        )

    def write(self, text: str) -> None:
        """The definition file, with its head."""
        (self.home / "transformations" / "flows.py").write_text(
            _HEAD % (self.source, self._rows_per_micro_batch) + text
        )

    def add_numbers(self, count: int) -> None:
        numbers = range(self._count, self._count + count)
        self.hand.send(self.source, [Row(b"%d" % each, key=b"%d" % each, partition=each % 2) for each in numbers])
        self._count += count

    def start(self, *options: str) -> RunningProcess:
        """`tidelog pipeline run`, in a process of its own."""
        command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(self.home), "-q", *options]
        return RunningProcess(command, environment=self._environment)

    def run(self, *options: str, exit_code: int = 0) -> str:
        """Run to the end; what the command said."""
        with self.start(*options) as process:
            process.process.wait(PATIENCE_S)
            process.stop()
            assert process.process.returncode == exit_code, process.output + self.log()
            return process.output

    def tell(self, *words: str) -> str:
        """Another verb of the command, to its end."""
        command = [sys.executable, "-m", "tidelog", "pipeline", words[0], str(self.home), *words[1:]]
        with RunningProcess(command, environment=self._environment) as process:
            process.process.wait(PATIENCE_S)
            process.stop()
            return process.output

    def view(self) -> RunView:
        found = run_at(self.storage)
        assert found is not None
        return found

    def rows(self) -> dict[str, int]:
        """How many rows each flow read in the last run."""
        return {flow.name: flow.rows for flow in self.view().flows}

    def wait_for_micro_batch(self, flow: str, micro_batch_id: int) -> None:
        """Wait until the run that was started has told of one."""

        def is_there() -> bool:
            view = run_at(self.storage)
            assert view is None or view.failure is None, view.failure + self.log()
            found = [each.micro_batch_id for each in view.flows if each.name == flow] if view is not None else []
            return any(each is not None and each >= micro_batch_id for each in found)

        eventually(is_there, f"{flow} has done micro-batch {micro_batch_id}", timeout_s=PATIENCE_S)

    def kill(self, process: RunningProcess, *, only_spark: bool) -> None:
        """SIGKILL for the command, with which its driver dies; or for the JVM alone."""
        for pid in leftovers(self.storage) if only_spark else [process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def counts(self, flow: str, *, prefix: str = "") -> Counter[int]:
        """How often each number is in the topic of a flow."""
        values = [(record.value or b"").decode() for record in self.hand.read(self.topics[flow])]
        return Counter(int(value.removeprefix(prefix)) for value in values if value.startswith(prefix))

    def is_exactly_once(self, flow: str) -> bool:
        return self.counts(flow) == Counter(range(self._count))

    def log(self) -> str:
        """The end of what Spark said, for a test that failed."""
        file = self.storage / "_tidelog" / "spark.log"
        return "\n" + "\n".join(file.read_text(errors="replace").splitlines()[-60:]) if file.exists() else ""

    def last_state(self, output: str) -> dict[str, object]:
        """The last object of a run with --format json."""
        lines = [line for line in output.splitlines() if line.startswith("{")]
        found: dict[str, object] = json.loads(lines[-1])
        return found
