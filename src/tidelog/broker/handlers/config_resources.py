"""What can have settings, as the admin APIs number it."""

from __future__ import annotations

import enum


class ResourceType(enum.IntEnum):
    """Kafka's types of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
