"""How a member changes its group: who it is, what follows for the epoch, the target and its own part. For members of both protocols."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.group import Resolution, names_of
from tidelog.coordinator.group.consumer.member import NOTHING, Member, MemberState
from tidelog.coordinator.group.consumer.reconciliation import reconcile
from tidelog.coordinator.group.consumer.target import TargetTask, compute_target
from tidelog.coordinator.group.consumer.turn import Turn
from tidelog.coordinator.group.records import (
    ConsumerGroupRegularExpressionValue,
    consumer_group_regular_expression_record,
)
from tidelog.model import ApiError

REGEX_REFRESH_MIN_INTERVAL_MS = 10_000
"""Expressions of a group are not resolved again sooner than this, however often topics come and go; Kafka's own."""


@dataclass(slots=True)
class Step:
    """One member on its way through one decision. `former` is the member before; of somebody new, one that says nothing."""

    turn: Turn
    former: Member
    member: Member
    replaced: Member | None = None  # who had its place until now, under another id
    resolutions: dict[str, Resolution] = field(default_factory=dict)

    def take(self, owned: Assignment | None, *, is_bumped: bool = False) -> Member:
        """Write what has to be written, and say what became of the member."""
        group = self.turn.group
        if self.member != self.former:
            self.turn.write_member(self.member)
        self.resolutions = dict(group.resolutions)
        is_bumped |= self.update_regexes() or group.epoch == 0 or self.member.topics != self.former.topics
        epoch = self._update_epoch(is_bumped=is_bumped)
        target_epoch, target = self._update_target(epoch)
        return self._reconcile(target_epoch, target, owned)

    # Regular expressions.

    def update_regexes(self) -> bool:
        """Resolve what has to be resolved. Says whether that gives the group another epoch."""
        group, before, after = self.turn.group, self.former.regex or None, self.member.regex or None
        if before == after:
            return self._refresh_regexes() if group.regexes and is_regex_refresh_due(self.turn) else False
        if before and group.regexes[before] <= 1:
            self.resolutions.pop(before, None)
            self.turn.records.append(consumer_group_regular_expression_record(group.group_id, before, None))
        if after and after not in self.resolutions:
            resolve(self.turn, after, self.resolutions)
        return True

    def _refresh_regexes(self) -> bool:
        return refresh_regexes(self.turn, self.resolutions)

    # Epoch and target.

    def _members(self) -> dict[str, Member]:
        """All members as they will be."""
        members = {**self.turn.group.members, self.member.member_id: self.member}
        if self.replaced is not None and self.replaced.member_id != self.member.member_id:
            members.pop(self.replaced.member_id, None)
        return members

    def _update_epoch(self, *, is_bumped: bool) -> int:
        """The topics are looked at if they, or what is subscribed to, may have changed."""
        group, around = self.turn.group, self.turn.around
        if not is_bumped:
            if group.seen.topics_version == around.topics.version:
                return group.epoch
            names = names_of(self._members().values(), self.resolutions)
            if around.hashes.metadata_hash(names) == group.metadata_hash:
                group.seen.topics_version = around.topics.version
                return group.epoch
        self.turn.write_epoch(group.epoch + 1, names_of(self._members().values(), self.resolutions))
        return group.epoch + 1

    def _update_target(self, epoch: int) -> tuple[int, Assignment]:
        """For which epoch the target is, and what of it is the member's."""
        turn, group, member_id = self.turn, self.turn.group, self.member.member_id
        formers = group.targets
        if self.replaced is not None:
            formers = {**formers, member_id: formers.get(self.replaced.member_id, NOTHING)}
        if epoch <= group.assignment_epoch:
            return group.assignment_epoch, formers.get(member_id, NOTHING)
        task = TargetTask(self._members(), formers, self.resolutions, turn.around.default_assignor)
        target = compute_target(task, turn.around.topics)
        for each_id, assignment in target.items():
            if formers.get(each_id) != assignment:
                turn.write_target(each_id, assignment)
        turn.write_target_epoch(epoch)
        return epoch, target[member_id]

    # The member's own part.

    def _reconcile(self, target_epoch: int, target: Assignment, owned: Assignment | None) -> Member:
        member = self.member
        if member.is_reconciled_to(target_epoch):
            return member
        reconciled = reconcile(member, target_epoch, target, owned, self.turn.group.owner)
        if reconciled != member:
            self.turn.write_assignment(reconciled)
            if reconciled.classic is None:
                is_revoking = reconciled.state is MemberState.UNREVOKED_PARTITIONS
                self.turn.time_revocation(reconciled, is_revoking=is_revoking)
        return reconciled


def is_regex_refresh_due(turn: Turn) -> bool:
    """Topics have come or gone, an expression was not resolved yet, or it was long ago; but not all the time."""
    group, settings = turn.group, turn.around.settings
    if group.regexes.keys() - group.resolutions.keys():
        return True
    last_ms = min(resolution.timestamp_ms for resolution in group.resolutions.values())
    elapsed_ms = turn.now.wall_ms - last_ms
    if elapsed_ms <= REGEX_REFRESH_MIN_INTERVAL_MS:
        return False
    return (
        not group.is_resolved_in(turn.around.topics.version) or elapsed_ms > settings.consumer_regex_refresh_interval_ms
    )


def refresh_regexes(turn: Turn, resolutions: dict[str, Resolution]) -> bool:
    """Resolve all of them again. Says whether any matches something else now.

    One that was written by a more lenient broker and is none here goes on matching what it matched: the others need not suffer for it.
    """
    group = turn.group
    before = {regex: resolutions.get(regex) for regex in group.regexes}
    for regex, former in sorted(before.items()):
        try:
            resolve(turn, regex, resolutions)
        except ApiError:
            _write(turn, regex, former.topics if former is not None else frozenset(), resolutions)
    return any(former is None or former.topics != resolutions[regex].topics for regex, former in before.items())


def resolve(turn: Turn, regex: str, resolutions: dict[str, Resolution]) -> None:
    """Match an expression with all topics, and write down which it matched. Raises ApiError if it is none."""
    _write(turn, regex, turn.around.matches.of(regex), resolutions)


def _write(turn: Turn, regex: str, matched: frozenset[str], resolutions: dict[str, Resolution]) -> None:
    resolution = Resolution(matched, turn.around.topics.version, turn.now.wall_ms)
    resolutions[regex] = resolution
    value = ConsumerGroupRegularExpressionValue(
        topics=tuple(sorted(resolution.topics)), version=resolution.version, timestamp=resolution.timestamp_ms
    )
    turn.records.append(consumer_group_regular_expression_record(turn.group.group_id, regex, value))
