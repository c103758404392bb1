"""Altered settings: the writes, with the notifications by which brokers hear of them, and what partitions make of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.alteration import ConfigAlteration, ConfigEntity, altered_broker, altered_topic
from tidelog.controller.commands import Change, Decision, Write
from tidelog.controller.election import Rules, settled
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.leading import default_rules, rules_of
from tidelog.controller.writes import PARTITIONS_PER_WRITE, StateChanges, chunks
from tidelog.model import ApiError, TopicPartition
from tidelog.registry import Create, Operation, Set


def alter_configs(image: ClusterImage, static: BrokerConfig, alterations: Sequence[ConfigAlteration]) -> Decision:
    """Change settings, each resource for itself; in `errors`, in order, why not."""
    writes: list[Write] = []
    errors: list[ApiError | None] = []
    changes: list[Change] = []
    before = image
    for alteration in alterations:
        try:
            altered, operations = _alteration(image, alteration, static)
        except ApiError as error:
            errors.append(error)
            continue
        errors.append(None)
        if operations:
            without = _without_eligible(image, altered, static)
            # Whatever is cut off before the last of these writes has cost a chance to lead, and nothing else.
            writes += chunks([*without.operations(), *operations], PARTITIONS_PER_WRITE)
            changes += without.all()
            image = _with_former_minimums(image, without.image(), static)
    return Decision(
        writes=writes,
        image=image,
        errors=tuple(errors),
        changes=tuple(changes),
        reconsider=_now_unclean(before, image, static),
    )


def _alteration(
    image: ClusterImage, alteration: ConfigAlteration, static: BrokerConfig
) -> tuple[ClusterImage, list[Operation]]:
    """The image with one resource altered, and the operations that do it; none if nothing changes."""
    name = alteration.name
    known: Mapping[str, str] | None
    if alteration.entity is ConfigEntity.BROKER:
        known = image.broker_configs.get(name)
        configs = altered_broker(image, alteration, static)
        path = layout.broker_config_path(name)
        changed = image.with_broker_configs(name, configs)
    else:
        configs = altered_topic(image, alteration, image.layers_of(static))
        path = layout.topic_config_path(name)
        known = image.topics[name].configs
        changed = image.with_topics([dataclasses.replace(image.topics[name], configs=configs)])
    if configs == (known or {}):
        return image, []
    content = layout.encode_configs(configs)
    notification = Create(layout.CHANGE_NOTIFICATION, layout.encode_change(path), sequential=True)
    return changed, [Create(path, content) if known is None else Set(path, content), notification]


def _without_eligible(before: ClusterImage, after: ClusterImage, static: BrokerConfig) -> StateChanges:
    """Who is eligible because of a min.insync.replicas that holds no more is so no more."""
    changes = StateChanges(after)
    for topic, was, now in _topics_with_other_rules(before, after, static):
        for index, state in topic.partitions.items() if was.min_isr != now.min_isr else ():
            if state.eligible:
                cleared = settled(state, dataclasses.replace(state, eligible=()))
                changes.put(TopicPartition(topic.name, index), state, cleared)
    return changes


def _with_former_minimums(before: ClusterImage, after: ClusterImage, static: BrokerConfig) -> ClusterImage:
    """The altered image, in which minimums that were raised are remembered as they were: a leader commits by them until it hears."""
    raised = {
        topic.name: min(was.min_isr, before.former_minimums.get(topic.name, was.min_isr))
        for topic, was, now in _topics_with_other_rules(before, after, static)
        if was.min_isr < now.min_isr
    }
    return dataclasses.replace(after, former_minimums={**after.former_minimums, **raised}) if raised else after


def _now_unclean(before: ClusterImage, after: ClusterImage, static: BrokerConfig) -> tuple[TopicPartition, ...]:
    """Partitions without a leader that may have any now."""
    return tuple(
        TopicPartition(topic.name, index)
        for topic, was, now in _topics_with_other_rules(before, after, static)
        if now.is_unclean_allowed and not was.is_unclean_allowed
        for index, state in topic.partitions.items()
        if not state.has_leader
    )


def _topics_with_other_rules(
    before: ClusterImage, after: ClusterImage, static: BrokerConfig
) -> Iterator[tuple[TopicImage, Rules, Rules]]:
    default_before, default_after = default_rules(before, static), default_rules(after, static)
    for name, topic in after.topics.items():
        known = before.topics[name]
        if default_before == default_after and known.configs is topic.configs:
            continue
        was, now = rules_of(known, default_before), rules_of(topic, default_after)
        if was != now:
            yield topic, was, now
