"""The checkers of groups can speak: each is shown what it guards against, and something much like it that is allowed."""

from __future__ import annotations

import pytest

from tests.simulation.views import P0, snapshot
from tidelog.model import Offset
from tidelog.simulation.checkers import (
    Checker,
    CommittedOffsetsStay,
    GroupsProcessEverything,
    OffsetsSurvive,
    OneOwner,
    ZombiesCommitNothing,
)
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.group_history import Commit, Fate, GroupHistory, How, Owner, Protocol
from tidelog.simulation.workloads import History

X, Y = Owner("x#1", "x"), Owner("y#1", "y")


def says(checker: Checker) -> list[str]:
    return list(checker.look(snapshot()))


def group(protocol: Protocol = Protocol.CLASSIC) -> GroupHistory:
    history = GroupHistory()
    history.begin("g", protocol, [P0])
    return history


def asked(history: GroupHistory, offset: Offset, *, epoch: int = 1, by: str = "x", is_reset: bool = False) -> Commit:
    commit = Commit(by=by, offset=offset, asked=history.now(), epoch=epoch, is_reset=is_reset)
    return history.ask("g", P0, commit)


def answered(history: GroupHistory, commit: Commit, fate: Fate = Fate.ACKNOWLEDGED) -> None:
    history.answer("g", P0, commit, fate, commit.epoch)


def committed(
    history: GroupHistory,
    offset: Offset,
    *,
    epoch: int = 1,
    by: str = "x",
    is_reset: bool = False,
    fate: Fate = Fate.ACKNOWLEDGED,
) -> None:
    answered(history, asked(history, offset, epoch=epoch, by=by, is_reset=is_reset), fate)


def shown(history: GroupHistory, offset: Offset) -> None:
    history.show("g", P0, offset, asked=history.now(), to="z")


# One owner.


def test_a_partition_that_goes_from_member_to_member_has_one_owner() -> None:
    history = group()
    history.gain("g", X, 1, [P0])
    history.release("g", X, 1, [P0], How.REVOKED)
    history.gain("g", Y, 2, [P0])
    history.release("g", Y, 2, [P0], How.LOST)
    history.gain("g", X, 3, [P0])
    assert not says(OneOwner(history))


def test_two_owners_in_one_generation_are_found() -> None:
    history = group()
    history.gain("g", X, 1, [P0])
    history.release("g", X, 1, [P0], How.LOST)
    history.gain("g", Y, 1, [P0])
    assert "was given to x and to y in generation 1" in says(OneOwner(history))[0]


def test_a_static_member_that_is_started_anew_is_the_same_owner() -> None:
    history, again = group(), Owner("x#2", "x")
    history.gain("g", X, 1, [P0])
    history.gain("g", again, 1, [P0])
    history.release("g", X, 1, [P0], How.LOST)
    assert not says(OneOwner(history))


@pytest.mark.parametrize("protocol", Protocol)
def test_a_partition_given_away_before_its_owner_gave_it_up_is_found(protocol: Protocol) -> None:
    history = group(protocol)
    checker = OneOwner(history)
    history.gain("g", X, 1, [P0])
    history.gain("g", Y, 2, [P0])
    assert not says(checker), "x may have been put out long ago"
    history.release("g", X, 2, [P0], How.REVOKED)
    assert "before x#1" in says(checker)[0], "but it was a member in good standing"


@pytest.mark.parametrize("how", [How.LOST, How.GONE])
def test_who_was_put_out_may_find_out_late(how: How) -> None:
    history = group(Protocol.CONSUMER)
    history.gain("g", X, 1, [P0])
    history.gain("g", Y, 2, [P0])
    history.release("g", X, 1, [P0], how)
    assert not says(OneOwner(history))


@pytest.mark.parametrize("protocol", Protocol)
def test_a_member_that_slept_may_hear_late_what_it_was_given_before_it_was_put_out(protocol: Protocol) -> None:
    """Seed 1607: it heard that it had lost the partition right after that."""
    history = group(protocol)
    history.gain("g", Y, 4, [P0])
    history.gain("g", X, 2, [P0])
    history.release("g", X, 0, [P0], How.LOST)
    history.release("g", Y, 4, [P0], How.REVOKED)
    assert not says(OneOwner(history))


def test_a_member_that_was_put_out_while_it_slept_may_hear_late_what_it_was_to_give_up() -> None:
    """Seed 1033: its coordinator had waited for it as long as it waits for anybody."""
    history = group(Protocol.CONSUMER)
    history.gain("g", X, 1, [P0])
    history.asleep["x#1"] = None
    history.gain("g", Y, 2, [P0])
    del history.asleep["x#1"]
    history.release("g", X, 1, [P0], How.REVOKED)
    assert not says(OneOwner(history))
    history.gain("g", X, 3, [P0])
    history.release("g", Y, 3, [P0], How.REVOKED)
    assert "before y#1" in says(OneOwner(history))[0], "who is awake hears it before"


def test_a_process_that_ends_owns_nothing() -> None:
    history = group()
    history.gain("g", X, 1, [P0])
    assert list(history.held("g")) == [(X, (P0,))]
    history.end("x#1")
    assert list(history.held("g")) == []
    history.gain("g", Y, 2, [P0])
    assert not says(OneOwner(history))


# Committed offsets.


def test_what_was_acknowledged_last_may_be_shown_and_so_may_what_comes_after_it() -> None:
    history = group()
    shown(history, -1)
    committed(history, 5)
    shown(history, 5)
    later = asked(history, 9)
    shown(history, 5)
    shown(history, 9)
    answered(history, later)
    shown(history, 9)
    assert not says(CommittedOffsetsStay(history))


@pytest.mark.parametrize(("offset", "why"), [(-1, "forgotten"), (5, "an earlier one"), (7, "nobody's")])
def test_what_is_shown_in_place_of_what_was_acknowledged_is_found(offset: Offset, why: str) -> None:
    history = group()
    committed(history, 5)
    committed(history, 9)
    shown(history, offset)
    assert f"has {offset} of" in says(CommittedOffsetsStay(history))[0], why


def test_a_commit_nobody_knows_the_fate_of_may_take_effect_late_but_not_in_a_later_generation() -> None:
    history = group()
    committed(history, 7, fate=Fate.UNKNOWN)
    committed(history, 9)
    shown(history, 7)
    assert not says(CommittedOffsetsStay(history))
    committed(history, 11, epoch=2)
    shown(history, 7)
    assert says(CommittedOffsetsStay(history))


def test_a_commit_that_was_refused_is_not_shown() -> None:
    history = group()
    committed(history, 9)
    committed(history, 12, is_reset=True, fate=Fate.REFUSED)
    shown(history, 12)
    assert says(CommittedOffsetsStay(history))


def test_offsets_go_back_by_a_reset_and_not_by_themselves() -> None:
    history = group()
    checker = CommittedOffsetsStay(history)
    committed(history, 9)
    committed(history, 3, epoch=-1, by="operator", is_reset=True)
    committed(history, 5, epoch=2)
    shown(history, 5)
    assert not says(checker)
    committed(history, 4, epoch=3, by="y")
    assert "committed 5" in says(checker)[0]


def test_offsets_that_go_back_after_a_reset_nobody_answered_are_explained() -> None:
    history = group()
    committed(history, 9)
    committed(history, 3, epoch=-1, by="operator", is_reset=True, fate=Fate.UNKNOWN)
    committed(history, 5, epoch=2)
    assert not says(CommittedOffsetsStay(history))


# Zombies.


def test_a_commit_of_an_earlier_generation_after_one_of_a_later_is_found() -> None:
    history = group()
    committed(history, 5, epoch=1)
    committed(history, 7, epoch=2, by="y")
    committed(history, 9, epoch=1)
    assert "x committed 9" in says(ZombiesCommitNothing(history))[0]


def test_an_answer_that_comes_late_is_no_zombies_and_a_reset_is_nobodys() -> None:
    history = group()
    early = asked(history, 5, epoch=1)
    committed(history, 7, epoch=2, by="y")
    answered(history, early)
    committed(history, 3, epoch=-1, is_reset=True)
    committed(history, 9, epoch=1, fate=Fate.UNKNOWN)
    assert not says(ZombiesCommitNothing(history))


# The end.


def ending(
    history: History, *, told: Offset | None, stored: dict[int, Offset], cluster: SimulatedCluster | None = None
) -> Ending:
    return Ending(
        history=history,
        snapshot=snapshot(),
        contents={},
        consumed={},
        cluster=cluster,  # type: ignore[arg-type]
        committed_offsets={"g": {} if told is None else {P0: told}},
        stored_offsets={"g": {broker_id: {P0: offset} for broker_id, offset in stored.items()}},
    )


def past() -> History:
    history = History()
    history.groups.begin("g", Protocol.CLASSIC, [P0])
    committed(history.groups, 5)
    return history


def test_offsets_that_are_told_and_stored_as_they_were_acknowledged_survive() -> None:
    assert not list(OffsetsSurvive().verdict(ending(past(), told=5, stored={1: 5, 2: 5})))


@pytest.mark.parametrize(
    ("told", "stored", "word"),
    [
        (None, {1: -1}, "has -1"),
        (3, {1: 3}, "has 3"),
        (5, {1: 5, 2: 3}, "broker 2 has stored 3"),
    ],
)
def test_offsets_that_did_not_survive_are_found(told: Offset | None, stored: dict[int, Offset], word: str) -> None:
    assert word in next(OffsetsSurvive().verdict(ending(past(), told=told, stored=stored)))


def test_a_record_that_a_group_did_not_process_is_found_unless_it_was_deleted() -> None:
    history = past()
    for offset in range(3):
        history.acknowledge(P0, offset, b"p/%d" % offset, producer="p", is_promised=True)
    history.groups.process("g", P0, 2, b"p/2")
    history.groups.process("g", P0, 1, b"p/1")
    everything = ending(history, told=5, stored={})
    assert "at offset 0" in next(GroupsProcessEverything().verdict(everything))
    history.ask_deletion(P0, 1)
    assert not list(GroupsProcessEverything().verdict(everything))
    history.groups.process("g", P0, 1, b"other")
    assert "at offset 1" in next(GroupsProcessEverything().verdict(everything))
