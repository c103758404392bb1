"""One node: assembly, replicas, waiters, metadata, fetch sessions, and a handler per API."""

from tidelog.broker.broker import Broker

__all__ = ["Broker"]
