"""Computes who shall have what, and the records that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.coordinator.group.book import Topics
from tidelog.coordinator.group.consumer.assignors import ASSIGNORS, Assignment, MemberSpec
from tidelog.coordinator.group.consumer.group import Resolution
from tidelog.coordinator.group.consumer.member import NOTHING, Member
from tidelog.model import TopicId


class TargetTask(NamedTuple):
    """A group as it will be when this heartbeat is written."""

    members: Mapping[str, Member]
    formers: Mapping[str, Assignment]  # the target until now
    resolutions: Mapping[str, Resolution]
    default_assignor: str


def preferred_assignor(names: Counter[str], default: str) -> str:
    """What most members want; of two with as many votes the first by name. Members without a wish do not vote."""
    return min(names, key=lambda name: (-names[name], name), default=default)


def compute_target(task: TargetTask, topics: Topics) -> dict[str, Assignment]:
    """For every member. Takes about 15 ms for 1,000 members and 10,000 partitions."""
    votes = Counter(member.assignor or "" for member in task.members.values() if member.assignor in ASSIGNORS)
    assign = ASSIGNORS[preferred_assignor(votes, task.default_assignor)]
    ids: dict[str, TopicId] = {}
    counts: dict[TopicId, int] = {}
    specs: dict[str, MemberSpec] = {}
    shared: dict[frozenset[str], frozenset[TopicId]] = {}
    for member_id, member in task.members.items():
        names = subscription(member, task.resolutions)
        if names not in shared:
            shared[names] = _existing(names, topics, ids, counts)
        specs[member_id] = MemberSpec(member.instance_id, shared[names], task.formers.get(member_id, NOTHING))
    return assign(specs, counts)


def subscription(member: Member, resolutions: Mapping[str, Resolution]) -> frozenset[str]:
    """The names of the topics that a member subscribes to, in either way."""
    if member.regex and member.regex in resolutions:
        return member.topics | resolutions[member.regex].topics
    return member.topics


def _existing(
    names: frozenset[str], topics: Topics, ids: dict[str, TopicId], counts: dict[TopicId, int]
) -> frozenset[TopicId]:
    for name in names:
        view = topics.by_name(name)
        if name not in ids and view is not None and view.partition_count:
            ids[name] = view.topic_id
            counts[view.topic_id] = view.partition_count
    return frozenset(ids[name] for name in names if name in ids)
