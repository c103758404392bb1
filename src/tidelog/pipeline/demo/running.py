"""The shop on one machine: brokers, orders, Spark; started in that order, stopped in the opposite one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.pipeline.demo.cluster import Cluster, running_cluster
from tidelog.pipeline.demo.driver import DriverPlan
from tidelog.pipeline.demo.generator import Generator, create_topics, orders_so_far
from tidelog.pipeline.demo.orders import OrderStream
from tidelog.pipeline.demo.spark import SparkDriver
from tidelog.pipeline.demo.watching import Snapshot, Watch
from tidelog.runtime import Runtime

LOOK_EVERY_S: Final = 1.0
LAST_ORDERS_WITHIN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPlan:
    """What was asked for."""

    data: Path
    broker_count: int
    port: int
    master: str
    commit_mode: str
    orders_per_second: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningShop:
    """Everything that runs."""

    plan: ShopPlan
    cluster: Cluster
    driver: SparkDriver
    generator: Generator
    stream: OrderStream
    watch: Watch


@asynccontextmanager
async def running_shop(plan: ShopPlan, runtime: Runtime, on_news: Callable[[str], None]) -> AsyncIterator[RunningShop]:
    """A shop whose brokers serve for as long as the block lasts; it has no orders yet, and its driver does not run. Raises DemoFailed."""
    watch = Watch(runtime, broker_count=plan.broker_count)

    def tell(news: str) -> None:
        watch.note(news)
        on_news(news)

    plan.data.mkdir(parents=True, exist_ok=True)
    brokers = running_cluster(plan.data / "cluster", broker_count=plan.broker_count, port=plan.port, on_news=tell)
    async with brokers as cluster:
        tell(f"{plan.broker_count} brokers serve at {cluster.bootstrap}")
        await create_topics(cluster.bootstrap, runtime)
        first = await orders_so_far(cluster.bootstrap, runtime)
        start_ms = runtime.clock.wall_ms() - first * 1000 // plan.orders_per_second
        stream = OrderStream(seed=plan.seed, start_ms=start_ms, per_second=plan.orders_per_second)
        driver = _driver(plan, cluster.bootstrap, runtime, tell)
        async with watch.connected(cluster.bootstrap):
            yield RunningShop(
                plan=plan,
                cluster=cluster,
                driver=driver,
                generator=Generator(stream, runtime, first=first),
                stream=stream,
                watch=watch,
            )


@asynccontextmanager
async def taking_orders(shop: RunningShop, *, last_within_s: float = LAST_ORDERS_WITHIN_S) -> AsyncIterator[None]:
    """Let orders come for as long as the block lasts; those begun then are acknowledged within the time, or given up."""
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(shop.generator.run(shop.cluster.bootstrap, stopping), name="sends orders")
        try:
            yield
        finally:
            stopping.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(last_within_s):
                    await asyncio.wait({sending})
            sending.cancel()


async def show(shop: RunningShop, draw: Callable[[Snapshot], None], *, seconds: float | None) -> None:
    """Show the shop every second, until the time is up, or for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                draw(await shop.watch.look(shop.driver, shop.generator))
                await asyncio.sleep(LOOK_EVERY_S)


def _driver(plan: ShopPlan, bootstrap: str, runtime: Runtime, tell: Callable[[str], None]) -> SparkDriver:
    driver_plan = DriverPlan(
        bootstrap=bootstrap,
        data=str(plan.data),
        master=plan.master,
        commit_mode=plan.commit_mode,
        orders_per_second=plan.orders_per_second,
    )
    return SparkDriver(driver_plan.command, log=plan.data / "spark.log", clock=runtime.clock, on_news=tell)
