"""The proof by kill -9: run the shop, kill parts of it at random, let all come back, and count what came out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tidelog.client.errors import ClientError
from tidelog.pipeline.demo.counting import Reader, Tally, Verdict, judge, open_transactions, reading
from tidelog.pipeline.demo.killing import Killer
from tidelog.pipeline.demo.kills import Victim
from tidelog.pipeline.demo.orders import revenue_of
from tidelog.pipeline.demo.processes import DemoFailed
from tidelog.pipeline.demo.running import RunningShop, ShopPlan, running_shop, taking_orders
from tidelog.runtime import Runtime

FIRST_WITHIN_S: Final = 600.0  # a minute is long, unless the machine has other things to do
LAST_ORDERS_WITHIN_S: Final = 120.0
STALLED_AFTER_S: Final = 120.0
WHOLE_WITHIN_S: Final = 90.0
SETTLED_WITHIN_S: Final = 30.0
_LOOK_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was done, and what came of it."""

    seed: int
    commit_mode: str
    master: str
    kills: Mapping[Victim, int]
    drivers_started: int
    load_s: float
    total_s: float
    verdict: Verdict

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self), "kills": dict(self.kills), "is_exact": self.verdict.is_exact}


class Telling:
    """Who hears how the proof gets on; both do nothing unless told otherwise."""

    def news(self, text: str) -> None:
        """Something happened."""

    def status(self, text: str) -> None:
        """How far it is; the next one takes its place."""


async def prove(plan: ShopPlan, runtime: Runtime, telling: Telling, *, seconds: float) -> Proof:
    """Run, kill, wait, count. Raises DemoFailed when it cannot even get so far."""
    started_ms = runtime.clock.monotonic_ms()
    async with running_shop(plan, runtime, telling.news) as shop:
        killer = Killer(shop, telling.news)
        async with shop.driver.running():
            load_s = await _under_load(shop, killer, telling, seconds=seconds)
            await _drained(shop, runtime, telling)
        telling.status("counting")
        await _until_whole(shop, telling)
        verdict = await _count(shop, runtime)
    return Proof(
        seed=plan.seed,
        commit_mode=plan.commit_mode,
        master=plan.master,
        kills=dict(killer.counts),
        drivers_started=shop.driver.starts,
        load_s=round(load_s, 1),
        total_s=round((runtime.clock.monotonic_ms() - started_ms) / 1000, 1),
        verdict=verdict,
    )


async def _under_load(shop: RunningShop, killer: Killer, telling: Telling, *, seconds: float) -> float:
    """Let orders come, and from the first micro-batch on the killer go about; how long orders came."""
    telling.status("Spark starts, which takes a while")
    await _within(shop.driver.is_ready, "the Spark driver has not started its queries")
    began_s = shop.watch.elapsed_s
    async with taking_orders(shop, last_within_s=LAST_ORDERS_WITHIN_S):
        await _within(shop.driver.has_progressed, "the Spark driver has not ended a micro-batch")
        async with asyncio.TaskGroup() as tasks:
            killing = tasks.create_task(killer.run(), name="kills")
            await _pass_time(shop, killer, telling, seconds=seconds)
            killing.cancel()
        telling.news(f"no more kills; {shop.generator.sent:,} orders so far")
    if not shop.generator.is_certain:
        raise DemoFailed(f"the brokers have not acknowledged the last orders within {LAST_ORDERS_WITHIN_S:.0f} s")
    return shop.watch.elapsed_s - began_s


async def _within(event: asyncio.Event, otherwise: str) -> None:
    try:
        async with asyncio.timeout(FIRST_WITHIN_S):
            await event.wait()
    except TimeoutError:
        raise DemoFailed(f"{otherwise} within {FIRST_WITHIN_S:.0f} s") from None


async def _pass_time(shop: RunningShop, killer: Killer, telling: Telling, *, seconds: float) -> None:
    until_s = shop.watch.elapsed_s + seconds
    while (left_s := until_s - shop.watch.elapsed_s) > 0:
        telling.status(
            f"{left_s:.0f} s left, {shop.generator.sent:,} orders sent, {killer.counts.total()} kills, "
            f"{shop.driver.starts} drivers started"
        )
        await asyncio.sleep(min(left_s, _LOOK_AGAIN_S))


async def _drained(shop: RunningShop, runtime: Runtime, telling: Telling) -> None:
    """Wait until every order is out, close the windows, wait for those. Gives up when nothing moves any more: what is missing is counted."""
    sent = shop.generator.sent
    windows = revenue_of(shop.stream.first(sent)).keys()
    async with reading(shop.cluster.bootstrap, runtime) as reader:
        await _until(lambda tally: tally.order_count >= sent, reader, shop, telling)
        # Only now: it moves the watermark past everything, and an order behind it would come too late.
        await shop.generator.send_closing(shop.cluster.bootstrap)
        await _until(lambda tally: tally.revenue.keys() >= windows, reader, shop, telling)
        await _until(lambda tally: tally.order_count > sent, reader, shop, telling)


async def _until(is_enough: Callable[[Tally], bool], reader: Reader, shop: RunningShop, telling: Telling) -> None:
    moved_s, most = shop.watch.elapsed_s, -1
    while shop.watch.elapsed_s - moved_s < STALLED_AFTER_S:
        try:
            tally = await reader.catch_up()
        except ClientError as failure:  # a broker may still be on its way back
            telling.status(f"waiting: {failure}")
        else:
            if is_enough(tally):
                return
            seen = tally.order_count + len(tally.revenue)
            if seen > most:
                moved_s, most = shop.watch.elapsed_s, seen
            telling.status(f"{tally.order_count:,} of {shop.generator.sent:,} orders out, {len(tally.revenue)} windows")
        await asyncio.sleep(_LOOK_AGAIN_S)
    telling.news(f"nothing has moved for {STALLED_AFTER_S:.0f} s; counting what there is")


async def _until_whole(shop: RunningShop, telling: Telling) -> None:
    """Wait until every broker is back and every replica in sync, so that whatever they hold is counted."""
    try:
        async with asyncio.timeout(WHOLE_WITHIN_S):
            while not (await shop.watch.look(shop.driver, shop.generator)).is_whole:  # noqa: ASYNC110  # asks others
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        telling.news(f"not all replicas are in sync after {WHOLE_WITHIN_S:.0f} s; counting all the same")


async def _count(shop: RunningShop, runtime: Runtime) -> Verdict:
    """Read everything again, from the beginning: nobody writes any more."""
    left_open = await open_transactions(shop.cluster.bootstrap, runtime)
    until_s = shop.watch.elapsed_s + SETTLED_WITHIN_S
    while left_open and shop.watch.elapsed_s < until_s:  # markers may still be on their way
        await asyncio.sleep(_LOOK_AGAIN_S)
        left_open = await open_transactions(shop.cluster.bootstrap, runtime)
    async with reading(shop.cluster.bootstrap, runtime) as reader:
        tally = await reader.catch_up()
    count = shop.generator.sent - 1
    made = [*shop.stream.first(count), shop.stream.closing(count)]
    return judge(
        tally,
        {order.key: order for order in made},
        revenue_of(shop.stream.first(count)),
        open_transactions=len(left_open),
    )
