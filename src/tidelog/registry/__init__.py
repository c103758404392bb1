"""The registry: the Protocol, the rules of the tree, and the real twins that keep it."""

from tidelog.registry.errors import (
    BadRequest,
    BadVersion,
    NodeExists,
    NoNode,
    NotEmpty,
    RegistryError,
    RegistryUnavailable,
    SessionExpired,
)
from tidelog.registry.protocol import (
    ANY,
    DATA_BYTES_MAX,
    OPERATIONS_MAX,
    Check,
    Create,
    Delete,
    Node,
    Operation,
    Outcome,
    Registry,
    SessionId,
    Set,
)

__all__ = [
    "ANY",
    "DATA_BYTES_MAX",
    "OPERATIONS_MAX",
    "BadRequest",
    "BadVersion",
    "Check",
    "Create",
    "Delete",
    "NoNode",
    "Node",
    "NodeExists",
    "NotEmpty",
    "Operation",
    "Outcome",
    "Registry",
    "RegistryError",
    "RegistryUnavailable",
    "SessionExpired",
    "SessionId",
    "Set",
]
