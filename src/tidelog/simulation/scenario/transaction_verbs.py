"""Verbs of transactions: taking a transactional id, beginning and ending; `produce ... by NAME` writes in what was begun."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.simulation.scenario.arguments import Arguments
from tidelog.simulation.scenario.stage import Stage
from tidelog.simulation.scenario.verbs import needs, verb


@verb(
    "take ID as NAME [SETTING=VALUE...]",
    "A new producer takes a transactional id; whoever had it is fenced, and what that left open is aborted: `> p1 took bank` or `> p1 "
    "failed: REASON`.",
)
def _take(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = arguments.after("as")
    transactional_id = arguments.word("a transactional id")
    if name is None:
        raise arguments.wrong("a name is missing")
    settings = arguments.settings()
    arguments.finish()
    return stage.clients.take(transactional_id, name, settings)


@verb("begin NAME", "What this producer sends from now on is one transaction.")
def _begin(stage: Stage, arguments: Arguments) -> Sequence[str]:
    stage.clients.begin_transaction(_name(stage, arguments))
    return ()


@verb(
    "end NAME commit|abort",
    "A producer ends its transaction: `> p1 committed`, `> p1 aborted` or `> p1 failed: REASON`. It is decided then; the markers that tell "
    "it to the partitions are on their way.",
)
def _end(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = arguments.word("a producer")
    how = arguments.one_of("commit or abort", ("commit", "abort"))
    arguments.finish()
    needs(stage.clients.has_producer(name), f"there is no producer {name}")
    return stage.clients.end_transaction(name, is_committed=how == "commit")


def _name(stage: Stage, arguments: Arguments) -> str:
    name = arguments.word("a producer")
    arguments.finish()
    needs(stage.clients.has_producer(name), f"there is no producer {name}")
    return name
