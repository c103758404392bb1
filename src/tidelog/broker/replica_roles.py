"""The roles of the replicas of this broker, as the controller gives and takes them: leading, following, none.

A log is found or begun when its replica first gets a role. What is remembered of a role is remembered by the replica, after it has worked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace

from tidelog.broker.hosting import Hosted, Told
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.config import BrokerConfig, LogConfig
from tidelog.controller import NO_BROKER
from tidelog.model import ApiError, BrokerId, ErrorCode, LeaderEpoch, TopicPartition
from tidelog.partition import Partition, PartitionEvent, ReplicationRules
from tidelog.runtime import Clock, DiskFull, StorageFailure
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)


class ReplicaRoles:
    """Gives roles to replicas. Raises ApiError where one cannot be had."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, replicas: ReplicaManager, *, is_live: Callable[[BrokerId], bool]
    ) -> None:
        self._broker_id = config.broker_id
        self._clock = clock
        self._replicas = replicas
        self._is_live = is_live
        self._rules = ReplicationRules(
            lag_time_max_ms=config.replica_lag_time_max_ms, truncation=config.truncation_in_force
        )

    def lead(self, told: Told) -> None:
        """Host the replica, if it is not hosted yet, and lead it. Raises ApiError, after which nothing of it is remembered."""
        self._replicas.fetchers.unfollow(told.topic_partition)
        monotonic_ms = self._clock.monotonic_ms()
        self._take_over(told, lambda partition: partition.become_leader(told.leadership, monotonic_ms=monotonic_ms))

    def follow(self, told: Told) -> None:
        """Host the replica, if it is not hosted yet, and follow its leader, if it has one. Raises ApiError, as `lead` does."""
        known = self._replicas.hosting.partition(told.topic_partition)
        is_new_epoch = known is None or known.leader_epoch != told.leadership.leader_epoch
        if is_new_epoch:
            self._replicas.fetchers.unfollow(told.topic_partition)
        now_ms = self._clock.wall_ms()
        partition = self._take_over(told, lambda partition: partition.become_follower(told.leadership, now_ms=now_ms))
        if partition is not None and is_new_epoch and told.leadership.leader != NO_BROKER:
            self._replicas.fetchers.follow(partition, told.leadership.leader)

    def _take_over(self, told: Told, become: Callable[[Partition], list[PartitionEvent]]) -> Partition | None:
        """The replica in its new role; None where a full disk keeps its log from us, and it answers with storage errors until it can be had."""
        hosted = self._replicas.hosting.get(told.topic_partition)
        if hosted is not None and hosted.directory.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this replica has failed")
        try:
            if hosted is None:
                hosted = self._host(told)
            if hosted.partition.log.config is not told.config:
                self._replicas.perform(hosted.partition, hosted.partition.reconfigure(told.config))
            self._replicas.perform(hosted.partition, become(hosted.partition))
        except StorageFailure as failure:
            self._take_failed_offline()
            if not isinstance(failure, DiskFull):
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, failure.reason) from failure
            if told.topic_partition not in self._replicas.hosting.unavailable:
                logger.error("replica unavailable", extra=fields(partition=told.topic_partition, reason=failure))
            self._replicas.hosting.unavailable[told.topic_partition] = told
            return None
        self._replicas.hosting.unavailable.pop(told.topic_partition, None)
        return hosted.partition

    def retry_unavailable(self) -> None:
        """Try again to have the logs that could not be had; space may have returned."""
        for told in list(self._replicas.hosting.unavailable.values()):
            try:
                (self.lead if told.leadership.leader == self._broker_id else self.follow)(told)
            except ApiError as error:
                logger.error("replica unavailable", extra=fields(partition=told.topic_partition, reason=error))

    def reconfigure(self, topic: str, config: LogConfig) -> None:
        """Give all replicas of a topic other settings."""
        for partition in self._replicas.hosting.of_topic(topic):
            self._replicas.perform(partition, partition.reconfigure(config))

    def let_go(self, kept: Collection[TopicPartition]) -> list[TopicPartition]:
        """Host no replica but these; the logs of the others stay where they are. Which ones that were."""
        others = [
            topic_partition for topic_partition, _ in self._replicas.hosting.pairs() if topic_partition not in kept
        ]
        for topic_partition in others:
            self._replicas.fetchers.unfollow(topic_partition)
            self._forget(topic_partition)
            self._replicas.wake_all(topic_partition)
        return others

    def _forget(self, topic_partition: TopicPartition) -> Hosted | None:
        """Host it no longer."""
        self._replicas.hosting.unavailable.pop(topic_partition, None)
        hosted = self._replicas.hosting.remove(topic_partition)
        if hosted is not None:
            hosted.flusher.forget(topic_partition)
            hosted.partition.step_down()
        return hosted

    def stop(self, topic_partition: TopicPartition, *, is_deleted: bool, leader_epoch: LeaderEpoch = -1) -> None:
        """Neither lead nor replicate; with `is_deleted` stop hosting it and put its files out of sight, to be removed by the thread later."""
        self._replicas.fetchers.unfollow(topic_partition)
        if not is_deleted:
            self._follow_nobody(topic_partition, leader_epoch)
            return
        hosted = self._forget(topic_partition)
        self._replicas.placement.delete(topic_partition, self._replicas.on_directory_failed)
        if hosted is None:
            return
        self._replicas.wake_all(topic_partition)
        logger.info("replica deleted", extra=fields(partition=topic_partition))

    def _follow_nobody(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """Who led must not go on: others have been told of another leader, and whoever waits here has to find it."""
        partition = self._replicas.hosting.partition(topic_partition)
        known = None if partition is None else partition.leadership
        if partition is not None and known is not None:
            nobody = replace(known, leader=NO_BROKER, leader_epoch=max(known.leader_epoch, leader_epoch))
            self._replicas.perform(partition, partition.become_follower(nobody, now_ms=self._clock.wall_ms()))

    def _host(self, told: Told) -> Hosted:
        directory, log = self._replicas.placement.find(
            told.topic_partition, told.topic_id
        ) or self._replicas.placement.create(told.topic_partition, told.topic_id, told.config, is_new=told.is_new)
        partition = Partition(
            self._broker_id,
            log,
            high_watermark=directory.high_watermarks.get(told.topic_partition, 0),
            rules=self._rules,
            is_eligible=self._is_live,
        )
        hosted = Hosted(partition, directory, self._replicas.flushers[directory.path])
        self._replicas.hosting.add(hosted)
        return hosted

    def _take_failed_offline(self) -> None:
        for directory in self._replicas.directories:
            if directory.failure is not None:
                self._replicas.on_directory_failed(directory, directory.failure)
