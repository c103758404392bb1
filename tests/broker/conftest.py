"""A broker for the tests of this room: one process, topics of their own."""

from tests.compatibility.conftest import tidelog, topic

__all__ = ["tidelog", "topic"]
