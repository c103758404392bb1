"""The members of a classic group: values, and what follows from all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidelog.coordinator.group.records import ClassicMemberValue
from tidelog.model import invariant


class MemberProtocol(NamedTuple):
    """A way to assign that a member supports, and what it says about itself in the words of that protocol."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member, as it last joined, and what it was assigned in the present generation."""

    member_id: str
    instance_id: str | None = None  # of a static member (KIP-345)
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]  # the one it likes best comes first
    assignment: bytes = b""
    is_new: bool = False  # waits in its first join, and cannot send heartbeats yet

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place while it restarts."""
        return self.instance_id is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said about itself in this protocol; nothing if it does not support it."""
        return next((said for name, said in self.protocols if name == protocol), b"")

    def value(self, protocol: str | None) -> ClassicMemberValue:
        """As it is written down."""
        return ClassicMemberValue(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @classmethod
    def from_value(cls, value: ClassicMemberValue, protocol: str | None) -> ClassicMember:
        """As it was written down: of its protocols only the one that the group used is known."""
        timeout_ms = value.rebalance_timeout_ms
        return cls(
            member_id=value.member_id,
            instance_id=value.instance_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else value.session_timeout_ms,
            session_timeout_ms=value.session_timeout_ms,
            protocols=(MemberProtocol(protocol or "", value.subscription),),
            assignment=value.assignment,
        )


@dataclass(frozen=True, slots=True)
class Members:
    """All members by id, in the order in which they came. What is asked for at every request is counted along, not looked for."""

    by_id: Mapping[str, ClassicMember] = field(default_factory=dict)
    by_instance: Mapping[str, str] = field(default_factory=dict)  # ids of static members by their instance ids
    support: Mapping[str, int] = field(default_factory=dict)  # how many members support a protocol

    @classmethod
    def of(cls, members: Iterable[ClassicMember]) -> Members:
        """These."""
        by_id = {member.member_id: member for member in members}
        return cls(
            by_id,
            {member.instance_id: member_id for member_id, member in by_id.items() if member.instance_id is not None},
            Counter(name for member in by_id.values() for name, _ in member.protocols),
        )

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self.by_id.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self.by_id[member_id]

    @property
    def first_id(self) -> str | None:
        """Whoever is in the group for longest."""
        return next(iter(self.by_id), None)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest of them may take to join again."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def with_member(self, member: ClassicMember) -> Members:
        """With one more, or with a newer one of the same id in the same place."""
        former = self.by_id.get(member.member_id)
        support = Counter(self.support)
        if former is not None:
            support.subtract(name for name, _ in former.protocols)
        support.update(name for name, _ in member.protocols)
        by_instance = self.by_instance
        if member.instance_id is not None:
            by_instance = {**by_instance, member.instance_id: member.member_id}
        by_id = dict(self.by_id)  # Copied as a whole, which is many times faster than {**by_id} for large groups.
        by_id[member.member_id] = member
        return Members(by_id, by_instance, +support)

    def without(self, member_ids: Iterable[str]) -> Members:
        """Without these, as far as they are members."""
        gone = set(member_ids)
        support = Counter(self.support)
        by_instance = dict(self.by_instance)
        for member_id in gone & self.by_id.keys():
            member = self.by_id[member_id]
            support.subtract(name for name, _ in member.protocols)
            if member.instance_id is not None:
                by_instance.pop(member.instance_id, None)
        by_id = {member_id: member for member_id, member in self.by_id.items() if member_id not in gone}
        return Members(by_id, by_instance, +support)

    def replaced(self, old_id: str, new_id: str) -> Members:
        """With a static member under its new id."""
        member = self.by_id[old_id]
        invariant(member.is_static, "only static members get another id")
        return self.without((old_id,)).with_member(replace(member, member_id=new_id, is_new=False))

    def settled(self) -> Members:
        """With nobody new."""
        return self._each({member.member_id: replace(member, is_new=False) for member in self if member.is_new})

    def assigned(self, assignments: Mapping[str, bytes]) -> Members:
        """With what each was given; nothing for those who are not mentioned."""
        return self._each(
            {
                member_id: replace(member, assignment=assignments.get(member_id, b""))
                for member_id, member in self.by_id.items()
            }
        )

    def can_all_use(self, names: Iterable[str]) -> bool:
        """Whether there is a protocol among these that every member supports."""
        return any(self.support.get(name, 0) == len(self.by_id) for name in names)

    def elect_protocol(self) -> str:
        """The protocol that most like best among those that all support; of two with as many votes the one that was voted for first."""
        candidates = {name for name, count in self.support.items() if count == len(self.by_id)}
        invariant(bool(candidates), "a member joins only if it has a protocol in common with all others")
        votes = Counter(next(name for name, _ in member.protocols if name in candidates) for member in self)
        return votes.most_common(1)[0][0]

    def _each(self, newer: Mapping[str, ClassicMember]) -> Members:
        """With members whose protocols and instances are as before."""
        return replace(self, by_id={**self.by_id, **newer})
