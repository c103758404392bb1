"""What groups heed of a broker's settings."""

from __future__ import annotations

from typing import Final

from tidelog.config import BrokerConfig
from tidelog.coordinator.group.settings import GroupSettings

_MINUTE_MS: Final = 60_000


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The settings of groups; none of them changes while a broker runs."""
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_assignors=config.group_consumer_assignors,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_migration_policy=config.group_consumer_migration_policy,
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
    )
