"""Repairs replicas in which rot was met: the rest of the log, from the rot on, is dropped and fetched from the leader again (D10).

What is dropped was perhaps committed, so nobody may count on this replica when that happens. It holds still from the moment rot is met: no
fetch of it lets it into an ISR. Then it asks the controller, which ends the leader epoch and, in the next, names it neither in sync nor
eligible; where it led, another does. Only when the registry says so of the very epoch it follows in is the log cut. Where no other replica
is in sync the controller changes nothing: the rest of the log stays as it is, readable around the rot, and we ask again now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tidelog.broker.directory_reports import DirectoryReports
from tidelog.broker.hosting import Hosted
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.controller import NO_BROKER, MalformedNode, layout
from tidelog.model import ApiError, BrokerId, LeaderEpoch, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.registry import Registry, RegistryError, RegistryUnavailable
from tidelog.runtime import Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage.damage import first_damage, stretches

logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.5
_ASK_AGAIN_MS: Final = 10_000.0


@dataclass(slots=True)
class _Patient:
    """A replica under repair: what was found in it, under which epoch it began to hold still, and when the controller was asked."""

    partition: Partition
    damaged_from: Offset
    held_since: LeaderEpoch
    asked_ms: float | None = None


class DamageRepair:
    """Looks after the damaged replicas of one broker, one at a time."""

    def __init__(
        self,
        broker_id: BrokerId,
        runtime: Runtime,
        registry: Registry,
        replicas: ReplicaManager,
        reports: DirectoryReports,
    ) -> None:
        self._broker_id = broker_id
        self._runtime = runtime
        self._registry = registry
        self._replicas = replicas
        self._reports = reports
        self._patients: dict[TopicPartition, _Patient] = {}
        self._found = runtime.metrics.counter("tidelog_log_damaged_replicas_total")
        self._unrepaired = runtime.metrics.gauge("tidelog_log_damaged_replicas")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look after them until the block is left."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._run())
            try:
                yield
            finally:
                task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            for directory in self._replicas.directories:
                for topic_partition in sorted(directory.health.damaged):
                    await self._look_after(topic_partition)
            gone = [key for key, one in self._patients.items() if one.partition.log.damaged_from is None]
            for topic_partition in gone:
                del self._patients[topic_partition]
            self._unrepaired.set(len(self._patients))

    async def _look_after(self, topic_partition: TopicPartition) -> None:
        hosted = self._replicas.hosting.get(topic_partition)
        if hosted is None or hosted.directory.failure is not None:
            return
        patient = self._patients.get(topic_partition)
        try:
            if patient is None or patient.partition is not hosted.partition:
                patient = await self._examined(hosted)
            if patient is None:
                return
            if await self._may_cut(patient):
                self._cut(patient)
            elif patient.asked_ms is None or self._runtime.clock.monotonic_ms() - patient.asked_ms >= _ASK_AGAIN_MS:
                await self._ask(patient)
        except (RegistryError, RegistryUnavailable, MalformedNode) as error:
            logger.warning("repair put off", extra=fields(partition=topic_partition, reason=error))
        except StorageFailure as failure:
            self._replicas.storage_error(topic_partition, failure)

    async def _examined(self, hosted: Hosted) -> _Patient | None:
        """Read the whole log in a thread; None if nothing is wrong with it."""
        partition, log = hosted.partition, hosted.partition.log
        held_since, cut_count = partition.leader_epoch, log.cut_count
        threads = self._runtime.disk.threads(hosted.directory.path)
        parts = stretches(log.segments, log.log_end_offset)
        found = await asyncio.get_running_loop().run_in_executor(threads, first_damage, self._runtime.disk, parts)
        if log.cut_count != cut_count:
            return None  # What was read is not the log any more; if it is still damaged, we are back soon.
        if found is None or found < log.log_start_offset:
            log.on_examined()
            return None
        self._found.add(1)
        logger.error(
            "replica damaged",
            extra=fields(partition=partition.topic_partition, offset=found, is_leader=partition.is_leader),
        )
        patient = self._patients[partition.topic_partition] = _Patient(partition, found, held_since)
        return patient

    async def _may_cut(self, patient: _Patient) -> bool:
        """Whether, in an epoch later than any fetch of ours, the registry counts on others and not on us."""
        partition = patient.partition
        path = layout.state_path(partition.topic_partition.topic, partition.topic_partition.index)
        state = layout.decode_state(path, await self._registry.get(path))
        return (
            self._replicas.hosting.holds(partition)
            and partition.is_follower
            and state.leader_epoch == partition.leader_epoch > patient.held_since
            and state.leader not in {self._broker_id, NO_BROKER}
            and self._broker_id not in (*state.isr, *state.eligible, *state.lost)
        )

    async def _ask(self, patient: _Patient) -> None:
        if patient.asked_ms is not None:
            logger.error(
                "damaged replica not repaired",
                extra=fields(
                    partition=patient.partition.topic_partition,
                    offset=patient.damaged_from,
                    reason="no other replica is known to be in sync",
                ),
            )
        await self._reports.report_damage(patient.partition.topic_partition)
        patient.asked_ms = self._runtime.clock.monotonic_ms()

    def _cut(self, patient: _Patient) -> None:
        partition = patient.partition
        try:
            events = partition.cut_damage(patient.damaged_from, now_ms=self._runtime.clock.wall_ms())
        except ApiError:
            return  # It does not follow any more; what it is now is seen with the next look.
        self._replicas.perform(partition, events)
        logger.info(
            "replica cut for repair", extra=fields(partition=partition.topic_partition, offset=patient.damaged_from)
        )
