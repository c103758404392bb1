"""The brokers of a demo: `tidelog up --brokers N` as anybody would start it, whose parent starts a broker again when it dies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.pipeline.demo.processes import DemoFailed, Program

START_WITHIN_S: Final = 240.0
STOP_WITHIN_S: Final = 6.0  # its own bound is 4 s
_READY: Final = "ready bootstrap="
_BROKER: Final = "tidelog-"

SETTINGS: Final = {
    # A broker that was killed is missed after 3 s, not after Kafka's 18: somebody is watching.
    "tidelog.registry.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",  # for the commit mode 2pc
    # A start loads all of them; the 50 of Kafka are for thousands of groups.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Brokers that serve."""

    program: Program
    bootstrap: str

    @property
    def brokers(self) -> dict[int, int]:
        """The process of each broker that lives, by its id."""
        return {
            int(member.name.removeprefix(_BROKER)): member.pid
            for member in self.program.members()
            if member.name.startswith(_BROKER) and member.parent == self.program.pid
        }


@asynccontextmanager
async def running_cluster(
    data: Path, *, broker_count: int, port: int, on_news: Callable[[str], None]
) -> AsyncIterator[Cluster]:
    """Brokers with their data below `data`, stopped when the block ends; `on_news` hears who died and who came back. Raises DemoFailed."""
    options = [part for name, value in SETTINGS.items() for part in ("-X", f"{name}={value}")]
    where = ["--brokers", str(broker_count), "--port", str(port), "--data", str(data)]
    program = await Program.start([sys.executable, "-m", "tidelog", "up", *where, *options])
    try:
        cluster = Cluster(program=program, bootstrap=await _ready(program))
        async with asyncio.TaskGroup() as tasks:
            hearing = tasks.create_task(_hear(program, on_news), name="hears the cluster")
            try:
                yield cluster
            finally:
                hearing.cancel()
    finally:
        await program.stop(within_s=STOP_WITHIN_S)


async def _ready(program: Program) -> str:
    try:
        async with asyncio.timeout(START_WITHIN_S):
            async for line in program.lines():
                if line.startswith(_READY):
                    return line.removeprefix(_READY)
    except TimeoutError:
        raise DemoFailed(f"the brokers did not serve within {START_WITHIN_S:.0f} s") from None
    said = "\n".join(line.removeprefix("tidelog: ") for line in program.last_lines)
    raise DemoFailed(f"the brokers did not start: {said or 'they said nothing'}")


async def _hear(program: Program, on_news: Callable[[str], None]) -> None:
    """Pass on what is said of brokers. Raises DemoFailed when their parent ends: nobody would start them again."""
    async for line in program.lines():
        if line.startswith("tidelog: "):
            on_news(line.removeprefix("tidelog: "))
    raise DemoFailed(f"the parent of the brokers ended with exit code {await program.ended()}")
