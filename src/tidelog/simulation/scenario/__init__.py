"""Scenarios: stories about replication written as text, played on production brokers in a simulated world."""

from __future__ import annotations

from tidelog.simulation.scenario import (
    client_verbs,
    cluster_verbs,
    group_verbs,
    message_verbs,
    transaction_verbs,
)
from tidelog.simulation.scenario.language import Command, Scenario, ScenarioError, Step, parse
from tidelog.simulation.scenario.player import EndedBadly, play
from tidelog.simulation.scenario.rewrite import NotAsWritten, rewrite_events
from tidelog.simulation.scenario.steps import OWN_SEED, Played
from tidelog.simulation.scenario.tables import Table
from tidelog.simulation.scenario.verbs import VERBS, Verb

__all__ = [
    "OWN_SEED",
    "VERBS",
    "Command",
    "EndedBadly",
    "NotAsWritten",
    "Played",
    "Scenario",
    "ScenarioError",
    "Step",
    "Table",
    "Verb",
    "parse",
    "play",
    "rewrite_events",
]

_ENTERED = (
    client_verbs,
    cluster_verbs,
    group_verbs,
    message_verbs,
    transaction_verbs,
)  # Importing them enters their verbs into the table.
