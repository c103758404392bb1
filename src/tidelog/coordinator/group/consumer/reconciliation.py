"""How a member gets from what it has to what it shall have: it gives up first, and gets only what others have given up.

The epoch of a member moves only when it has given up what the target takes from it. Nobody waits for anybody else's epoch.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.member import NOTHING, Member, MemberState
from tidelog.model import ApiError, ErrorCode, TopicId

Owner = Callable[[TopicId, int], str | None]
"""Who has a partition, or may still have it; None if nobody does."""


def reconcile(member: Member, target_epoch: int, target: Assignment, owned: Assignment | None, owner: Owner) -> Member:
    """The next step, if there is one. `owned` is what the member says it has; None if it does not say."""
    if member.state is MemberState.STABLE:
        return (
            member if member.epoch == target_epoch else _step(member, member.epoch, target_epoch, target, owned, owner)
        )
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_has(owned, member.revoking):
            return member
        return _step(member, member.epoch + 1, target_epoch, target, owned, owner)
    if member.state is MemberState.UNKNOWN and owned != NOTHING:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH, "The state of the member is unknown; it must rejoin with nothing."
        )
    return _step(member, member.epoch, target_epoch, target, owned, owner)


def _step(
    member: Member,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    owner: Owner,
) -> Member:
    kept = _both(member.assigned, target)
    revoking = _difference(member.assigned, kept)
    if revoking and _still_has(owned, revoking):
        return member.advanced(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    missing = _difference(target, kept)
    released = {
        topic_id: frozenset(
            partition for partition in partitions if owner(topic_id, partition) in (None, member.member_id)
        )
        for topic_id, partitions in missing.items()
    }
    is_complete = released == missing
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return member.advanced(target_epoch, state, _union(kept, released), NOTHING)


def _still_has(owned: Assignment | None, revoking: Assignment) -> bool:
    """Whoever does not say what it has still has everything."""
    return owned is None or bool(_both(owned, revoking))


def _both(some: Assignment, others: Assignment) -> Assignment:
    both = {topic_id: partitions & others[topic_id] for topic_id, partitions in some.items() if topic_id in others}
    return {topic_id: partitions for topic_id, partitions in both.items() if partitions}


def _difference(some: Assignment, others: Assignment) -> Assignment:
    rest = {topic_id: partitions - others.get(topic_id, frozenset()) for topic_id, partitions in some.items()}
    return {topic_id: partitions for topic_id, partitions in rest.items() if partitions}


def _union(some: Assignment, others: Assignment) -> Assignment:
    union = dict(some)
    for topic_id, partitions in others.items():
        if partitions:
            union[topic_id] = union.get(topic_id, frozenset()) | partitions
    return union
