"""Carries out what the seed has drawn: finds who there is to kill, and kills it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from tidelog.pipeline.demo.kills import Kill, Victim, kills_of
from tidelog.pipeline.demo.processes import Process, kill
from tidelog.pipeline.demo.running import RunningShop

_VICTIM_WITHIN_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.1


class Killer:
    """Kills parts of a running shop, one after the other."""

    def __init__(self, shop: RunningShop, on_news: Callable[[str], None]) -> None:
        self._shop = shop
        self._on_news = on_news
        self.counts: Counter[Victim] = Counter(dict.fromkeys(Victim, 0))

    async def run(self) -> None:
        """Go on until cancelled."""
        for drawn in kills_of(self._shop.plan.seed):
            if drawn.victim is not Victim.BROKER:  # of a driver that has got nowhere yet, nothing is worth killing
                await self._shop.driver.has_progressed.wait()
            await asyncio.sleep(drawn.after_s)
            await self._strike(drawn)

    async def _strike(self, drawn: Kill) -> None:
        """Wait until there is somebody to kill, but not for ever, and kill him."""
        try:
            async with asyncio.timeout(_VICTIM_WITHIN_S):
                while not self._killed(drawn):  # noqa: ASYNC110  # processes come and go without telling us
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            self._on_news(f"no {drawn.victim} to kill within {_VICTIM_WITHIN_S:.0f} s")
        else:
            self.counts[drawn.victim] += 1

    def _killed(self, drawn: Kill) -> bool:
        match drawn.victim:
            case Victim.BROKER:
                return self._kill_broker(drawn.draw)
            case Victim.DRIVER:
                return self._kill_driver(drawn.draw)
            case Victim.EXECUTOR:
                return self._kill_one(drawn.draw, self._shop.driver.executors, "executor")
            case Victim.COMMITTER:
                return self._kill_one(drawn.draw, self._shop.driver.committers, "what commits for the driver")

    def _kill_broker(self, draw: int) -> bool:
        brokers = self._shop.cluster.brokers
        if len(brokers) < self._shop.plan.broker_count:
            return False  # One at a time: with two of three gone everything waits, which proves nothing.
        broker_id, pid = sorted(brokers.items())[draw % len(brokers)]
        self._on_news(f"kill -9 broker {broker_id} (process {pid})")
        return kill(pid)

    def _kill_driver(self, draw: int) -> bool:
        driver = self._shop.driver
        if not driver.jvm:
            return False
        driver.on_kill()
        if draw % 2:
            self._on_news("kill -9 the Spark driver and all its processes")
            driver.kill_all()
            return True
        driver.has_progressed.clear()
        self._on_news(f"kill -9 the Spark driver's JVM (process {driver.jvm[0].pid})")
        return kill(driver.jvm[0].pid)

    def _kill_one(self, draw: int, found: list[list[Process]], what: str) -> bool:
        """Kill one of those found; each may be several processes."""
        if not found:
            return False
        self._shop.driver.on_kill()
        chosen = found[draw % len(found)]
        self._on_news(f"kill -9 {what} (process {', '.join(str(process.pid) for process in chosen)})")
        return sum(kill(process.pid) for process in chosen) > 0
