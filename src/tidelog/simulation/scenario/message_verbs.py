"""Verbs that stop single messages on the wire: to show what one fetch changes, or to lose one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.simulation.messages import Gate, Kind
from tidelog.simulation.scenario.arguments import Arguments
from tidelog.simulation.scenario.stage import Stage
from tidelog.simulation.scenario.verbs import needs, verb
from tidelog.wire.definition import ApiKey


class _Sort(NamedTuple):
    """Messages of an API, and whether the requests or the answers."""

    api_key: int
    is_answer: bool
    preposition: str


_SORTS: Final = {
    "fetches": _Sort(ApiKey.FETCH, False, "of"),
    "answers": _Sort(ApiKey.FETCH, True, "to"),
    "produces": _Sort(ApiKey.PRODUCE, False, "of"),
    "acks": _Sort(ApiKey.PRODUCE, True, "to"),
    "markers": _Sort(ApiKey.WRITE_TXN_MARKERS, False, "of"),
}
_SINGULAR: Final = {"fetch": "fetches", "answer": "answers", "produce": "produces", "ack": "acks", "marker": "markers"}
_ARRIVES_WITHIN_MS: Final = 2_000.0  # a follower fetches every 500 ms; a link takes one
_LOOK_AFTER_MS: Final = 5.0


@verb(
    "hold fetches of BROKER | hold answers to BROKER | hold produces of client | hold acks to client | hold markers of BROKER",
    "Stop these messages on the wire: fetch requests a follower sends, the answers to them, produce requests, their answers, and the "
    "markers that a coordinator of transactions sends. Of a broker "
    "that runs, wait until its next fetch is stopped, so that nothing of it is under way. `client` can stand for BROKER: its consumers "
    "fetch too. What is held is lost when its connection ends.",
)
def _hold(stage: Stage, arguments: Arguments) -> Sequence[str]:
    sort, name = _messages(stage, arguments, arguments.one_of("which messages", tuple(_SORTS)))
    arguments.finish()
    kind = Kind(host=stage.host(name), api_key=_SORTS[sort].api_key, is_answer=_SORTS[sort].is_answer)
    gate = stage.gates[(sort, name)] = stage.messages.hold(kind)
    if sort == "fetches" and name in stage.names and stage.broker(name).node.is_running:
        _until_stopped(stage, gate, f"{name} sends a fetch")
    return ()


@verb(
    "step fetch of BROKER | step answer to BROKER | step produce of client | step ack to client",
    "Let one held message go. After a fetch, wait until it was answered and the broker's next one is stopped; if its answers are held too, "
    "until it has arrived.",
)
def _step(stage: Stage, arguments: Arguments) -> Sequence[str]:
    sort, name = _messages(stage, arguments, _SINGULAR[arguments.one_of("which message", tuple(_SINGULAR))])
    arguments.finish()
    gate = _gate(stage, arguments, sort, name)
    _until_stopped(stage, gate, "a message comes to be let go")
    stage.messages.step(gate)
    stage.cluster.world.run_for_ms(_LOOK_AFTER_MS)
    following = stage.gates.get(("fetches", name))
    answers = stage.gates.get(("answers", name))
    if sort == "fetches" and answers is None:
        _until_stopped(stage, gate, f"{name} sends its next fetch")
    elif sort == "answers" and following is not None:
        _until_stopped(stage, following, f"{name} sends its next fetch")
    return ()


@verb(
    "held fetch of BROKER | held no fetch of BROKER | held [no] answer to BROKER | held [no] produce of client | held [no] ack to client",
    "Fail unless such a message waits at this moment to be let go; or, with `no`, if one does.",
)
def _held(stage: Stage, arguments: Arguments) -> Sequence[str]:
    is_wanted = not arguments.has("no")
    sort, name = _messages(stage, arguments, _SINGULAR[arguments.one_of("which message", tuple(_SINGULAR))])
    arguments.finish()
    gate = _gate(stage, arguments, sort, name)
    needs(gate.is_blocking == is_wanted, "no such message waits" if is_wanted else "such a message waits")
    return ()


@verb("release BROKER|client", "Hold nothing of this machine any more; what was stopped goes on.")
def _release(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = arguments.word("a machine")
    held = [key for key in stage.gates if key[1] == name]
    needs(bool(held), f"nothing of {name} is held")
    for key in held:
        stage.messages.release(stage.gates.pop(key))
    return ()


def _messages(stage: Stage, arguments: Arguments, sort: str) -> tuple[str, str]:
    arguments.literal(_SORTS[sort].preposition)
    name = arguments.word("a machine")
    stage.host(name)
    return sort, name


def _gate(stage: Stage, arguments: Arguments, sort: str, name: str) -> Gate:
    gate = stage.gates.get((sort, name))
    if gate is None:
        raise arguments.wrong(f"hold {sort} {_SORTS[sort].preposition} {name} first")
    return gate


def _until_stopped(stage: Stage, gate: Gate, what: str) -> None:
    stage.until(lambda: gate.is_blocking, what, within_ms=_ARRIVES_WITHIN_MS)
