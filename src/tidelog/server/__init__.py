"""Connections, frames and dispatch. Knows what a request is, not what a partition is."""

from tidelog.server.connection import Connection
from tidelog.server.dispatcher import Dispatcher, Handler, RequestContext
from tidelog.server.guard import Guard, GuardLimits
from tidelog.server.intake import ConnectionLimits
from tidelog.server.listener import Listener
from tidelog.server.pipeline import Settling
from tidelog.server.refusals import ConnectionRefused, Refusal

__all__ = [
    "Connection",
    "ConnectionLimits",
    "ConnectionRefused",
    "Dispatcher",
    "Guard",
    "GuardLimits",
    "Handler",
    "Listener",
    "Refusal",
    "RequestContext",
    "Settling",
]
