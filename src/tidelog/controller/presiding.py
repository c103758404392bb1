"""What goes on by itself: sessions that end, an office that becomes vacant, brokers that come and go, timers.

One loop looks at everything whenever something may have changed, and now and then without a reason, so that no lost notice matters (fault
C04). What fails because of the registry is tried again, for ever, after a pause that grows to a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Final

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.channels import ClusterChannels
from tidelog.controller.commands import ElectGreatest, ElectionType, ElectLeaders, ForgetMinimums
from tidelog.controller.controller import Controller
from tidelog.controller.inquiry import ask_for_ends
from tidelog.controller.membership import Membership
from tidelog.controller.office import PARTITIONS_PER_SLICE, Office
from tidelog.controller.rebalance import imbalanced
from tidelog.controller.reign import Fenced
from tidelog.model import ApiError, TopicPartition
from tidelog.registry import Registry, RegistryError, RegistryUnavailable, SessionExpired
from tidelog.runtime import Clock
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

LOOK_INTERVAL_MS: Final = 5_000  # at everything, without a reason
BALANCE_PATIENCE_MS: Final = 100  # with brokers that have not heard of the last change
FIRST_BALANCE_MS: Final = 5_000  # after the office was won
RETRY_MIN_MS: Final = 50
RETRY_MAX_MS: Final = 2_000
INQUIRY_INTERVAL_MS: Final = 200  # between questions for the ends of logs that were not answered


class Presiding:
    """The loop of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        membership: Membership,
        office: Office,
        channels: ClusterChannels,
        clock: Clock,
    ) -> None:
        self._config = config
        self._registry = registry
        self._membership = membership
        self._office = office
        self._channels = channels
        self._clock = clock
        self._woken = asyncio.Event()
        office.on_unsettled = self._woken.set
        self._hearing: asyncio.Task[None] | None = None
        self._is_session_over = False
        self._balance_due_ms: float | None = None  # in this reign
        self._former_minimums: Mapping[str, int] = {}
        self._forget_due_ms = 0.0
        self._retry_ms = 0.0

    async def begin(self) -> None:
        """Watch and contend, once; a session that lapses meanwhile is replaced by `run`. Raises RegistryUnavailable, MalformedNode."""
        async with self._office.exclusive():
            try:
                await self._watch()
                await self._preside()
            except (SessionExpired, Fenced) as error:
                self._office.resign(str(error))
                self._is_session_over = isinstance(error, SessionExpired)

    async def run(self) -> None:
        """Look, and wait for the next reason to look, until cancelled. Raises BrokerIdTaken."""
        inquiring = asyncio.ensure_future(self._inquire())
        inquiring.add_done_callback(lambda _: self._woken.set())
        self._hear()
        try:
            while not inquiring.done():
                self._woken.clear()
                await self._look()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_ms() / 1000):
                        await self._woken.wait()
            inquiring.result()
        finally:
            inquiring.cancel()
            if self._hearing is not None:
                self._hearing.cancel()

    async def _look(self) -> None:
        try:
            async with self._office.exclusive():
                if self._is_session_over or self._registry.session_id is None:
                    await self._replace_session()
                await self._preside()
        except (SessionExpired, Fenced) as error:
            self._office.resign(str(error))
            self._is_session_over = self._is_session_over or isinstance(error, SessionExpired)
            self._back_off(error)
        except (RegistryUnavailable, RegistryError, layout.MalformedNode, ApiError) as error:
            self._back_off(error)
        else:
            self._retry_ms = 0.0

    def _back_off(self, reason: Exception) -> None:
        self._retry_ms = min(max(2 * self._retry_ms, RETRY_MIN_MS), RETRY_MAX_MS)
        logger.warning("registry to be looked at again", extra=fields(reason=reason, retry_ms=self._retry_ms))

    def _pause_ms(self) -> float:
        if self._retry_ms:
            return self._retry_ms
        if self._balance_due_ms is None or not self._office.is_held:
            return LOOK_INTERVAL_MS
        return min(LOOK_INTERVAL_MS, max(0.0, self._balance_due_ms - self._clock.monotonic_ms()))

    async def _replace_session(self) -> None:
        self._office.resign("the session is over")
        await self._membership.renew()
        self._is_session_over = False
        self._hear()
        await self._watch()

    def _hear(self) -> None:
        """Hear of the end of the session in force."""
        if self._hearing is not None:
            self._hearing.cancel()
        self._hearing = asyncio.ensure_future(self._resign_when_ended())

    async def _resign_when_ended(self) -> None:
        await self._registry.ended()
        self._is_session_over = True
        self._office.resign("the session is over")
        self._woken.set()

    async def _watch(self) -> None:
        """Be woken by what concerns us. Armed before anything is read, so that nothing falls in between."""
        await self._registry.watch(layout.CONTROLLER, self._woken.set)
        await self._registry.watch(layout.BROKER_IDS, self._on_brokers_changed)

    def _on_brokers_changed(self) -> None:
        if self._office.is_held:
            self._woken.set()

    async def _preside(self) -> None:
        """Contend for the office; in office, see who is there, and to the balance."""
        was_held = self._office.is_held
        if not await self._office.contend():
            return
        if not was_held:
            self._balance_due_ms = self._clock.monotonic_ms() + FIRST_BALANCE_MS
        controller = await self._office.load(await self._membership.prepare())
        await self._office.compare_brokers(controller)
        await self._forget_minimums(controller)
        if self._balance_due_ms is not None and self._clock.monotonic_ms() >= self._balance_due_ms:
            await self._balance(controller)

    async def _forget_minimums(self, controller: Controller) -> None:
        """Count with raised minimums when a leader that has not heard of them cannot be a member any more."""
        minimums, now_ms = controller.image.former_minimums, self._clock.monotonic_ms()
        if minimums is not self._former_minimums:
            self._former_minimums = minimums
            self._forget_due_ms = now_ms + 2 * self._membership.session_timeout_ms
        elif minimums and now_ms >= self._forget_due_ms:
            await self._office.perform(controller, ForgetMinimums())
            self._office.done(controller)

    async def _balance(self, controller: Controller) -> None:
        config = controller.config
        self._balance_due_ms = self._clock.monotonic_ms() + 1000 * config.leader_imbalance_check_interval_seconds
        if not config.auto_leader_rebalance_enable:
            return
        astray = imbalanced(controller.image, config.leader_imbalance_per_broker_percentage)
        if astray and not await self._channels.told(controller.image, timeout_ms=BALANCE_PATIENCE_MS):
            # Who has not heard of the last change may be out of reach, and who cannot be told that it leads leads nobody.
            self._balance_due_ms = self._clock.monotonic_ms() + LOOK_INTERVAL_MS
            return
        for start in range(0, len(astray), PARTITIONS_PER_SLICE):
            some = astray[start : start + PARTITIONS_PER_SLICE]
            await self._office.perform(controller, ElectLeaders(kind=ElectionType.PREFERRED, partitions=some))
        if astray:
            logger.info("leadership given back", extra=fields(partition_count=len(astray)))
            self._office.done(controller)

    async def _inquire(self) -> None:
        """Ask for the ends of logs as long as partitions wait for that."""
        while True:
            await self._office.has_waiting.wait()
            asked = list(islice(self._office.waiting, PARTITIONS_PER_SLICE))
            image = self._office.image
            command = None if image is None else await ask_for_ends(self._channels, image, asked)
            with contextlib.suppress(ApiError):
                await self._office.turn(self._elect_greatest(asked, command))
            if self._office.has_waiting.is_set():
                await asyncio.sleep(INQUIRY_INTERVAL_MS / 1000)

    async def _elect_greatest(self, asked: list[TopicPartition], command: ElectGreatest | None) -> None:
        controller = await self._office.load(await self._membership.prepare())
        if command is not None:
            await self._office.perform(controller, command)
            self._office.done(controller)
        self._office.wait_further(controller, asked)
