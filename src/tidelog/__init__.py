"""Tidelog: a replicated log that speaks the Kafka wire protocol."""

__version__ = "0.1.0"
