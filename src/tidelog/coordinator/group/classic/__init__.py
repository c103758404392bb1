"""The classic group protocol: members join, a leader among them assigns, and everybody starts over when somebody comes or goes."""

from tidelog.coordinator.group.classic.area import ClassicArea
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.members import ClassicMember, MemberProtocol, Members
from tidelog.coordinator.group.classic.timing import SessionTimer, session_restart

__all__ = [
    "ClassicArea",
    "ClassicGroup",
    "ClassicMember",
    "ClassicState",
    "MemberProtocol",
    "Members",
    "SessionTimer",
    "session_restart",
]
