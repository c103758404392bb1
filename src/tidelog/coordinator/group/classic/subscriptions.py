"""Which topics the members of a classic group of consumers read, as far as what they say can be understood.

To the coordinator the metadata of a member are bytes. Consumers put a subscription into them (Kafka's ConsumerProtocolSubscription); its
versions only ever add fields at the end, so that the topics, which come first, can be read in those of the future too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tidelog.coordinator.group.record_codec import DAMAGE, FieldReader

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_REMEMBERED_BYTES_MAX: Final = 4 << 10
"""What is larger is read each time: strangers say how large it is, and the memory outlives their groups."""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription of version 0 or later; None if it is no subscription."""
    return _remembered(metadata) if len(metadata) <= _REMEMBERED_BYTES_MAX else _read(metadata)


@lru_cache(maxsize=4_096)
def _remembered(metadata: bytes) -> frozenset[str] | None:
    return _read(metadata)


def _read(metadata: bytes) -> frozenset[str] | None:
    fields = FieldReader(metadata)
    try:
        if fields.int16() < 0:
            return None
        return frozenset(fields.array(fields.string))
    except DAMAGE:
        return None
