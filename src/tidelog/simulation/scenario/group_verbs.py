"""Verbs of consumer groups: joining, reading, committing, leaving, dying, and looking at what is committed."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.simulation.scenario.arguments import Arguments
from tidelog.simulation.scenario.members import Members
from tidelog.simulation.scenario.stage import Stage
from tidelog.simulation.scenario.verbs import needs, verb


@verb(
    "join GROUP as NAME reading TOPIC [SETTING=VALUE...]",
    "A consumer joins a group and waits until it is given partitions: `> c1 owns t-0`. It commits nothing by itself, and reads only when "
    "it is told to.",
)
def _join(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name, topic = arguments.after("as"), arguments.after("reading")
    group = arguments.word("a group")
    if name is None or topic is None:
        raise arguments.wrong("a name or a topic is missing")
    settings = arguments.settings()
    arguments.finish()
    return stage.members.join(name, group, stage.topic_partition(topic).topic, settings)


@verb(
    "poll NAME",
    "A member takes the next records, if there are any within 2 s: `> c1 read m0 m1` or `> c1 read nothing`.",
)
def _poll(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(stage.members, arguments)
    return stage.members.ask(name, stage.members.member(name).poll)


@verb(
    "commit NAME",
    "A member commits all it has read: `> c1 committed t-0 2`, where 2 is the next offset to read, or `> c1 did not commit: CODE`.",
)
def _commit(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(stage.members, arguments)
    return stage.members.ask(name, stage.members.member(name).commit)


@verb("leave NAME", "A member closes in good order and is gone from its group.")
def _leave(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(stage.members, arguments)
    stage.members.member(name).leave()
    stage.until(lambda: not stage.members.has(name), f"{name} has left")
    return ()


@verb("crash NAME", "A member's process dies without a word; its group misses it when its session is over.")
def _crash(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(stage.members, arguments)
    stage.members.member(name).node.kill()
    return ()


@verb("offsets GROUP", "What a group has committed: `> g has committed t-0 2` or `> g has committed nothing`.")
def _offsets(stage: Stage, arguments: Arguments) -> Sequence[str]:
    return stage.members.offsets(arguments.word("a group"))


def _name(members: Members, arguments: Arguments) -> str:
    name = arguments.word("a member")
    arguments.finish()
    needs(members.has(name), f"there is no member {name}")
    return name
