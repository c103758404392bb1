"""The listener that brokers use among themselves, and the only one that serves what brokers alone may ask.

An operator may name one of the listeners; where none is named, one more is bound on a free port of the first listener's host. It is
registered like any other, so that brokers find it, and clients are never told of it, because they see only the listener they came by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tidelog.broker.metadata_cache import AUTOMATIC_LISTENER
from tidelog.config import BrokerConfig, Listener


def inter_broker_listener(config: BrokerConfig) -> str:
    """Its name."""
    return config.inter_broker_listener_name or AUTOMATIC_LISTENER


def listeners_to_bind(config: BrokerConfig) -> tuple[Listener, ...]:
    """The listeners of the settings, and behind them the automatic one where none of them is for brokers."""
    names = [listener.name for listener in config.listeners]
    if inter_broker_listener(config) in names:
        return config.listeners
    return (*config.listeners, Listener(AUTOMATIC_LISTENER, config.listeners[0].host, 0))


def endpoints_to_register(config: BrokerConfig, bound: Iterable[Listener]) -> tuple[Listener, ...]:
    """What is told of the bound listeners; the automatic one is reached at the host that clients reach the first one at."""
    told = config.advertised(bound)
    is_automatic = len(listeners_to_bind(config)) > len(config.listeners)
    return (*told[:-1], dataclasses.replace(told[-1], host=told[0].host)) if is_automatic else told
