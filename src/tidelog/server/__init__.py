"""Connections, frames and dispatch. Knows what a request is, not what a partition is."""

from tidelog.server.connection import Connection, ConnectionLimits
from tidelog.server.dispatcher import ConnectionRefused, Dispatcher, Handler, RequestContext
from tidelog.server.listener import Listener

__all__ = [
    "Connection",
    "ConnectionLimits",
    "ConnectionRefused",
    "Dispatcher",
    "Handler",
    "Listener",
    "RequestContext",
]
