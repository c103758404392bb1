"""Altered settings: the writes, with the notifications by which brokers hear of them, and what partitions make of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.alteration import ConfigAlteration, ConfigEntity, altered_broker, altered_topic
from tidelog.controller.commands import Change, Decision, Write
from tidelog.controller.election import Rules, settled
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.leading import MIN_ISR, default_rules, rules_of
from tidelog.controller.writes import PARTITIONS_PER_WRITE, StateChanges, chunks
from tidelog.model import ApiError, TopicPartition
from tidelog.registry import Create, Node, Operation, Set

LOWEST_MINIMUM: Final = 1  # of min.insync.replicas


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
    told = layout.encode_change(path, _minimum_before(image, alteration, static))
    notification = Create(layout.CHANGE_NOTIFICATION, told, sequential=True)
    return changed, [Create(path, content) if known is None else Set(path, content), notification]


def _minimum_before(image: ClusterImage, alteration: ConfigAlteration, static: BrokerConfig) -> int:
    """The lowest min.insync.replicas by which a leader that has not heard of the alteration commits what is altered."""
    default = default_rules(image, static)
    if alteration.entity is ConfigEntity.TOPIC:
        rules, names = rules_of(image.topics[alteration.name], default), [alteration.name]
    else:
        rules, names = default, [name for name, topic in image.topics.items() if MIN_ISR not in topic.configs]
    return min([rules.min_isr, *(image.former_minimums.get(name, rules.min_isr) for name in names)])


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


def with_doubted_minimums(image: ClusterImage, notifications: Mapping[str, Node]) -> ClusterImage:
    """The image of a controller that finds settings changed that it has not changed itself: a minimum may have been raised just now.

    The former one counts for the topics concerned until every leader must have heard: whoever leaves an ISR is not taken to know what a
    leader that has not heard commits without it.
    """
    doubted = dict(image.former_minimums)
    for path, node in notifications.items():
        changed, minimum = _change_told(path, node)
        for name, topic in image.topics.items():
            if _is_concerned(topic, changed):
                doubted[name] = min(minimum, doubted.get(name, minimum))
    return dataclasses.replace(image, former_minimums=doubted) if doubted else image


def _change_told(path: str, node: Node) -> tuple[str, int]:
    """What a notification tells of, and the minimum before; of anything, and of the lowest there is, if it cannot be read."""
    try:
        return layout.decode_change(path, node), layout.minimum_before(path, node) or LOWEST_MINIMUM
    except layout.MalformedNode:
        return "", LOWEST_MINIMUM


def _is_concerned(topic: TopicImage, changed_path: str) -> bool:
    """Whether the minimum of a topic may be another than before the settings at a path were changed."""
    if changed_path.startswith(f"{layout.TOPIC_CONFIGS}/"):
        return changed_path == layout.topic_config_path(topic.name)
    return changed_path == "" or MIN_ISR not in topic.configs


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
