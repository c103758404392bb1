"""What transactions heed of a broker's settings."""

from __future__ import annotations

from tidelog.config import BrokerConfig
from tidelog.coordinator.transaction.settings import TransactionSettings
from tidelog.coordinator.transaction.states import TransactionVersion


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """The settings of transactions; none of them changes while a broker runs."""
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        expiry_check_ms=config.transaction_expired_check_interval_ms,
        abort_check_ms=config.transaction_timed_out_check_interval_ms,
        is_two_phase_enabled=config.transaction_two_phase_commit_enable,
        version=TransactionVersion(config.transaction_version),
    )
