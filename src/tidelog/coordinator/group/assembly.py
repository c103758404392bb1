"""Who is given whom: the areas that make up a machine of groups."""

from __future__ import annotations

from tidelog.coordinator.group.administration import AdminArea
from tidelog.coordinator.group.book import GroupBook, Topics
from tidelog.coordinator.group.classic import ClassicArea
from tidelog.coordinator.group.consumer import ConsumerArea
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offsets import OffsetsArea
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.runtime import Randomness


def make_group_machine(settings: GroupSettings, topics: Topics, randomness: Randomness) -> GroupMachine:
    """The machine of one partition of `__consumer_offsets`, which knows no group yet."""
    book = GroupBook(topics)
    offsets = OffsetsArea(book, settings)
    consumers = ConsumerArea(book, settings, randomness)
    # Requests of classic members are decided by the other area where their group has moved on to the new protocol.
    classic = ClassicArea(book, settings, randomness, elsewhere=consumers.classic_requests)
    return GroupMachine(book, [classic, offsets, consumers, AdminArea(book, settings, offsets)])
