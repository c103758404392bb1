"""Who leads and who is in sync: decisions about many partitions at once, each of which `election` decides for itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.config import TOPIC_SETTINGS, BrokerConfig
from tidelog.controller.channels import ReplicaEnd
from tidelog.controller.commands import Decision, Distrust, ElectGreatest, ElectionType, ElectLeaders, Reconsider
from tidelog.controller.election import (
    Presence,
    Rules,
    distrusted,
    greatest,
    is_waiting_for_ends,
    knowing,
    preferred,
    reconsidered,
)
from tidelog.controller.image import ALL_BROKERS, BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.controller.writes import StateChanges
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
NOBODY: Final[frozenset[BrokerId]] = frozenset()


def default_rules(image: ClusterImage, static: BrokerConfig) -> Rules:
    """The rules of a topic that has none of its own, on a controller that was started with `static`.

    The minimum is the least that any broker was started with, unless all were given another, or that was altered for one: whoever leads,
    it commits nothing with fewer than that.
    """
    config = image.layers_of(static).merged()
    minimums = [int(configs[MIN_ISR]) for configs in image.broker_configs.values() if MIN_ISR in configs]
    if MIN_ISR not in image.broker_configs.get(ALL_BROKERS, {}):
        minimums.append(static.min_insync_replicas)
        minimums += (broker.min_isr for broker in image.brokers.values() if broker.min_isr is not None)
    return Rules(
        min_isr=min(minimums),
        is_unclean_allowed=config.unclean_leader_election_enable,
    )


def rules_of(topic: TopicImage, default: Rules) -> Rules:
    """What a topic's settings, or else the brokers', say about elections. Cheap: asked for many topics at once."""
    min_isr, unclean = topic.configs.get(MIN_ISR), topic.configs.get(UNCLEAN)
    if min_isr is None and unclean is None:
        return default
    return Rules(
        min_isr=default.min_isr if min_isr is None else int(min_isr),
        is_unclean_allowed=default.is_unclean_allowed if unclean is None else unclean.lower() == "true",
    )


def check_rules(configs: Mapping[str, str]) -> None:
    """Raise ConfigError if the settings of a topic cannot be asked for its rules."""
    for name in (MIN_ISR, UNCLEAN):
        if name in configs:
            TOPIC_SETTINGS[name].parse(configs[name])


@dataclass(frozen=True, slots=True)
class Leading:
    """The image and the rules under which leaders are elected."""

    image: ClusterImage
    default: Rules

    def presence(self, *, restarted: frozenset[BrokerId] = NOBODY, forgetful: frozenset[BrokerId] = NOBODY) -> Presence:
        """Who is there."""
        return Presence(
            live=frozenset(self.image.brokers),
            leaving=self.image.shutting_down,
            restarted=restarted,
            forgetful=forgetful,
        )

    def rules(self, topic: TopicImage) -> Rules:
        """The rules of a topic. A minimum that was raised just now counts once every leader must have heard of it."""
        rules = rules_of(topic, self.default)
        former = self.image.former_minimums.get(topic.name, rules.min_isr)
        return rules if former >= rules.min_isr else dataclasses.replace(rules, min_isr=former)

    def reconsider(self, command: Reconsider) -> Decision:
        """Bring partitions in line with who is there; those that are gone meanwhile are passed over."""
        presence = self.presence(restarted=command.restarted, forgetful=command.forgetful)
        changes = StateChanges(self.image)
        for partition, state, rules in self._known(command.partitions):
            here = presence.without(self.image.offline.get(partition, NOBODY))
            changes.put(partition, state, reconsidered(state, here, rules))
        return changes.decision()

    def distrust(self, command: Distrust) -> Decision:
        """Take a broker's standing from it in some partitions, where others have one."""
        presence = self.presence()
        changes = StateChanges(self.image)
        for partition, state, rules in self._known(command.partitions):
            if command.broker_id in state.assignment:
                here = presence.without(self.image.offline.get(partition, NOBODY))
                changes.put(partition, state, distrusted(state, command.broker_id, here, rules))
        return changes.decision()

    def elect(self, command: ElectLeaders) -> Decision:
        """Elect as an operator asks, each partition for itself."""
        presence = self.presence()
        changes = StateChanges(self.image)
        errors: list[ApiError | None] = []
        for partition in command.partitions:
            try:
                state = self._state(partition)
                here = presence.without(self.image.offline.get(partition, NOBODY))
                elected = _elected(state, command.kind, here, self.rules(self.image.topics[partition.topic]))
                changes.put(partition, state, elected)
            except ApiError as error:
                errors.append(error)
            else:
                errors.append(None)
        return dataclasses.replace(changes.decision(), errors=tuple(errors))

    def elect_greatest(self, command: ElectGreatest) -> Decision:
        """Elect by the ends of the logs where that is still what is needed, and nobody we asked has restarted since."""
        presence = self.presence()
        changes = StateChanges(self.image)
        for partition, state, _ in self._known(list(command.ends)):
            ends = self._ends_of_now(command, partition)
            here = presence.without(self.image.offline.get(partition, NOBODY))
            if is_waiting_for_ends(state, here) and knowing(state).issubset(ends):
                changes.put(partition, state, greatest(state, ends))
        return changes.decision()

    def waiting_for_ends(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that only the ends of their logs can help."""
        presence = self.presence()
        return [
            partition
            for partition, state, _ in self._known(partitions)
            if state.lost and is_waiting_for_ends(state, presence.without(self.image.offline.get(partition, NOBODY)))
        ]

    def _ends_of_now(self, command: ElectGreatest, partition: TopicPartition) -> dict[BrokerId, ReplicaEnd]:
        """What was told by brokers that are there and have not restarted since."""
        alive = {broker_id: broker.broker_epoch for broker_id, broker in self.image.brokers.items()}
        epochs = command.broker_epochs
        return {
            broker_id: end
            for broker_id, end in command.ends[partition].items()
            if broker_id in alive and alive[broker_id] == epochs.get(broker_id)
        }

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self.image.state_of(partition)
        if state is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        return state

    def _known(self, partitions: Sequence[TopicPartition]) -> Iterator[tuple[TopicPartition, PartitionState, Rules]]:
        rules: dict[str, Rules] = {}
        for partition in partitions:
            state = self.image.state_of(partition)
            if state is not None:
                known = rules.get(partition.topic)
                if known is None:
                    known = rules[partition.topic] = self.rules(self.image.topics[partition.topic])
                yield partition, state, known


def _elected(state: PartitionState, kind: ElectionType, presence: Presence, rules: Rules) -> PartitionState:
    if kind is ElectionType.PREFERRED:
        if state.leader == state.preferred_leader:
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred leader leads already.")
        after = preferred(state, presence)
        if after is None:
            raise ApiError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"The preferred leader {state.preferred_leader} is not alive or not in sync.",
            )
        return after
    if state.has_leader and state.leader in presence.live:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "A live replica leads already.")
    after = reconsidered(state, presence, dataclasses.replace(rules, is_unclean_allowed=True))
    if not after.has_leader:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is alive.")
    return after


def seen_brokers(image: ClusterImage, brokers: Mapping[BrokerId, BrokerImage]) -> ClusterImage:
    """The image with these brokers. What a broker was doing in its former life, leaving or missing a disk, it does no more."""
    same = {
        broker
        for broker, seen in brokers.items()
        if broker in image.brokers and image.brokers[broker].broker_epoch == seen.broker_epoch
    }
    offline = {partition: still for partition, those in image.offline.items() if (still := those.intersection(same))}
    return dataclasses.replace(
        image,
        brokers=dict(sorted(brokers.items())),
        shutting_down=image.shutting_down & same,
        offline=offline if offline != image.offline else image.offline,
    )


def without_replicas(image: ClusterImage, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> ClusterImage:
    """The image in which a broker has no disk for some of its replicas."""
    offline = dict(image.offline)
    for partition in partitions:
        state = image.state_of(partition)
        if state is not None and broker_id in state.assignment:
            offline[partition] = offline.get(partition, NOBODY) | {broker_id}
    return dataclasses.replace(image, offline=offline)
