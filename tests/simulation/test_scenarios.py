"""Every scenario goes as it is written, the language says what it does not understand, and no rewriting touches a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios_rewrite import SCENARIOS, rewrite
from tests.simulation.clusters import kills
from tidelog.simulation.scenario import (
    OWN_SEED,
    VERBS,
    NotAsWritten,
    Played,
    ScenarioError,
    parse,
    play,
    rewrite_events,
)
from tidelog.simulation.scenario.events import events_of
from tidelog.simulation.scenario.tables import parse_table

pytestmark = kills
LONG = {"follower_crashes_anywhere"}  # a sweep in itself

HEAD = "A title\nA summary.\n\n"
SMALL = f"""\
{HEAD}A leads.

cluster A B controller=C
topic t on A B
produce t m0
----
> m0 acknowledged at offset 0
broker  role      LEO  HW  records
A       leader      1   1  m0
B       follower    1   1  m0
* an event that never happens

Notice: both have it.

kill A
wait leader = B
----
broker  role    LEO  ISR
A       down    -    out
B       leader  1    in
"""
BELOW = SMALL.count("\n") + 2  # where a step begins that is put behind it


def told(path: Path, seed: int) -> list[str]:
    problems: list[str] = []
    for played in play(parse(path.read_text(), where=path.name), seed=seed):
        problems += played.problems
        if played.are_events_stale:
            written, happened = "\n".join(played.step.events), "\n".join(played.events)
            problems.append(
                f"{path.name}:{played.step.line}: events (make scenarios REWRITE=1)\n{written}\n-- but --\n{happened}"
            )
    return problems


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.proof if path.stem in LONG else ())
        for path in sorted(SCENARIOS.glob("*.txt"))
    ],
)
def test_it_goes_as_it_is_written(path: Path) -> None:
    assert not told(path, OWN_SEED)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2, 5))
@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_tables_and_results_come_out_under_other_seeds(path: Path, seed: int) -> None:
    assert not told(path, seed)


def played(text: str) -> list[Played]:
    return list(play(parse(text, where="s.txt")))


@pytest.mark.slow
def test_a_wrong_cell_is_a_problem_that_names_line_broker_and_both_values() -> None:
    wrong = SMALL.replace("B       leader  1    in", "B       leader  7    in")
    *_, last = played(wrong)
    assert last.problems == ("s.txt:18: LEO of B is 1, not 7",)


@pytest.mark.slow
def test_a_wrong_result_is_a_problem_and_ends_the_play() -> None:
    (only,) = played(SMALL.replace("at offset 0", "at offset 5"))
    assert only.problems == (
        "s.txt:6: the commands said m0 acknowledged at offset 0; written is m0 acknowledged at offset 5",
    )


@pytest.mark.slow
def test_what_is_waited_for_in_vain_is_a_problem() -> None:
    (*_, last) = played(SMALL.replace("wait leader = B", "wait leader = C within=2s"))
    assert last.problems == ("s.txt:19: wait leader = C within=2s: not within 2 s: leader = C",)


@pytest.mark.slow
def test_events_are_rewritten_and_everything_else_stays() -> None:
    written = rewrite_events(SMALL, where="s.txt")
    assert "never happens" not in written
    assert "* B  became leader partition=t-0 leader_epoch=1 isr=B" in written
    by_hand = [line for line in SMALL.splitlines() if not line.startswith("* ")]
    assert [line for line in written.splitlines() if not line.startswith("* ")] == by_hand
    assert rewrite_events(written, where="s.txt") == written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("A       leader      1   1  m0", "A       leader      1   0  m0"), ("at offset 0", "at offset 1")],
    ids=["a cell", "a result"],
)
def test_a_wrong_table_or_result_is_never_rewritten(tmp_path: Path, right: str, wrong: str) -> None:
    path = tmp_path / "s.txt"
    text = SMALL.replace(right, wrong)
    path.write_text(text)
    with pytest.raises(NotAsWritten):
        rewrite_events(text, where="s.txt")
    (failure,) = rewrite([path])
    assert "does not go as written" in failure
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Only a title\n", "s.txt:1: a scenario begins with a title and a summary"),
        (HEAD + "Prose.\n", "s.txt:4: there is no step"),
        (HEAD + "kill A\n", "s.txt:4: commands need a line ---- below them; prose begins with a capital letter"),
        (HEAD + "----\n", "s.txt:4: there is no command above ----"),
        (HEAD + "kill A\n----\nbroker  LEO\nA  1  2\n", "s.txt:7: 3 cells under 2 columns; two blanks part cells"),
        (HEAD + "kill A\n----\nbroker  size\n", "s.txt:6: expected a result"),
        (HEAD + "kill A\n----\nLEO  HW\n", "s.txt:6: expected a result"),
        (HEAD + "x=1\n----\n", "s.txt:4: no command begins with 'x=1'"),
        (HEAD + "kil A\n----\n", "s.txt:4: there is no command 'kil'; did you mean kill?"),
        (HEAD + "dance\n----\n", "s.txt:4: there is no command 'dance'; there are alter,"),
    ],
)
def test_what_is_not_understood_is_named_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        played(text)
    assert str(raised.value).startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("produce t", "a value is missing; usage: produce TOPIC"),
        ("produce t m1 async", "`async` and `as NAME` go together"),
        ("produce t m1 acks=2", "acks is all, 1, 0, not 2"),
        ("kill A speed=9", "'speed=9' is not understood"),
        ("let 5 pass", "'5' is no time; write 500ms, 3s or 1min"),
        ("step fetch of B", "hold fetches of B first"),
        ("hold noise of B", "'noise' is none of fetches"),
        ("alter t unclean", "'unclean' is not understood"),
    ],
)
def test_a_wrong_command_is_named_with_its_usage(command: str, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        played(SMALL + f"\n{command}\n----\n")
    assert str(raised.value).startswith(f"s.txt:{BELOW}: {message}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("kill A", "A does not run"),
        ("kill Z", "there is no broker Z; there are A, B, C"),
        ("produce u m1", "there is no topic u; there are t"),
        ("restart B", "B runs already; see bounce"),
        ("wait p9", "nothing was begun as p9"),
        ("release B", "nothing of B is held"),
        ("hold fetches of B", "not within 2 s: B sends a fetch"),
    ],
)
def test_what_cannot_be_done_is_a_problem(command: str, message: str) -> None:
    *_, last = played(SMALL + f"\n{command}\n----\n")
    assert last.problems == (f"s.txt:{BELOW}: {command}: {message}",)


@pytest.mark.slow
def test_what_is_held_can_be_asked() -> None:
    holding = SMALL.replace("produce t m0", "produce t m0\nhold fetches of B\nheld fetch of B")
    first, *_ = played(holding)
    assert not first.problems
    (only,) = played(holding.replace("held fetch", "held no fetch"))
    assert only.problems == ("s.txt:10: held no fetch of B: such a message waits",)


SWEPT = f"""\
{HEAD}cluster A B
topic t on A B
mark begin
----

produce t m0
----
> m0 acknowledged at offset 0

sweep kill of B after every message since begin
----
broker  role  LEO
A       leader  1
B       down    -
"""


@pytest.mark.slow
def test_a_sweep_crashes_the_broker_at_every_point() -> None:
    *_, last = played(SWEPT)
    assert not last.problems
    assert last.remark is not None
    assert last.remark == "B was crashed at 2 points", (
        "the answer to its parked fetch, which brings m0, and its next fetch"
    )


@pytest.mark.slow
def test_what_a_crash_breaks_is_told_with_its_number() -> None:
    *_, last = played(SWEPT.replace("since begin", "since begin\ncheck waiting p1"))
    assert last.problems[0].startswith("s.txt:14: check waiting p1: nothing was begun as p1 (crash 1 of ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("since begin", "since end", "s.txt:13: there is no mark end"),
        ("of B after", "of Z after", "s.txt:13: there is no broker Z"),
        ("every message", "every minute", "s.txt:13: 'minute' is none of operation, message"),
        ("produce t m0", "sweep kill of B after every message since begin", "s.txt:9: sweep is the first command of the last"),
        ("sweep kill", "let 1s pass\nsweep kill", "s.txt:14: sweep is the first command of the last step"),
    ],
)  # fmt: skip
def test_a_sweep_that_makes_no_sense_is_refused(right: str, wrong: str, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        played(SWEPT.replace(right, wrong))
    assert str(raised.value).startswith(message)


def test_a_command_before_the_cluster_is_a_problem() -> None:
    (only,) = played(HEAD + "let 1s pass\n----\n")
    assert only.problems == ("s.txt:4: let 1s pass: there is no cluster yet; begin with: cluster A B ...",)


def test_prose_introduces_the_step_below_and_notices_belong_to_the_one_above() -> None:
    scenario = parse(SMALL + "\nThe end.\n")
    first, second = scenario.steps
    assert (scenario.title, scenario.summary, scenario.outro) == ("A title", "A summary.", ("The end.",))
    assert (first.intro, first.notice) == (("A leads.",), ("both have it.",))
    assert (second.intro, second.notice) == ((), ())


def test_events_call_brokers_by_letters_and_leave_out_what_says_nothing() -> None:
    lines = [
        "         0.000 broker-3     started incarnation=1",
        "         9.163 broker-3     log directory opened directory=/data log_count=0 is_clean=False",
        "        84.986 broker-1     became leader partition=t-0 leader_epoch=0 isr=\"[1, 2]\"",
        "      6325.223 broker-3     broker failed broker_id=2",
        "      6325.223 client       something of a client",
        '      6400.000 broker-3     no answer broker_id=2 reason="connection to broker-2:32768 lost"',
        "      6752.890 broker-3     unclean leader elected partition=t-0 leader=-1",
    ]  # fmt: skip
    assert events_of(lines, ("A", "B", "C")) == [
        "C  started",
        "A  became leader partition=t-0 leader_epoch=0 isr=A,B",
        "C  broker failed broker=B",
        'C  no answer broker=B reason="connection to B lost"',
        "C  unclean leader elected partition=t-0 leader=nobody",
    ]


def test_a_table_is_written_as_it_is_read() -> None:
    lines = ["broker  role    LEO  epochs   records", "A       leader   10  0@0 1@2  m0 m1"]
    assert parse_table(lines).lines() == lines


def test_every_verb_is_documented() -> None:
    page = (SCENARIOS.parents[1] / "docs" / "scenarios.md").read_text()
    missing = [verb.name for verb in VERBS.values() if verb.usage not in page or verb.summary not in page]
    assert not missing, "docs/scenarios.md says something else about these"
