"""The three ways in which bytes and messages fail to fit each other."""

from __future__ import annotations


class MalformedMessage(Exception):
    """Bytes that are no message. Nothing after them on the connection can be trusted, so its edge closes it."""


class UnsupportedRequest(MalformedMessage):
    """An API key or version that we do not serve. Its layout is unknown to us, so it ends a connection as garbage does."""


class UnencodableMessage(Exception):
    """A value that the chosen version cannot express: a bug of the sender, or a version too old for what it asks."""
