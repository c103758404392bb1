"""What a cluster in the foreground tells its user."""

from __future__ import annotations

import io
import json

from tidelog.cli.voice import ClusterVoice


class Closed(io.StringIO):
    """A terminal that is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


def test_programs_get_one_line_and_nothing_else() -> None:
    out, err = io.StringIO(), io.StringIO()
    ClusterVoice(out, err, "welcome at {first}").ready("h:1,h:2", [])
    assert out.getvalue() == "ready bootstrap=h:1,h:2\n"
    assert err.getvalue() == ""


def test_what_a_broker_says_bears_its_number_and_json_stays_json() -> None:
    err = io.StringIO()
    voice = ClusterVoice(io.StringIO(), err, "")
    voice.quote(2, "2026 WARNING something")
    voice.quote(3, '{"level": "warning"}')
    voice.say("broker 2 died")
    first, second, third = err.getvalue().splitlines()
    assert first == "broker 2: 2026 WARNING something"
    assert json.loads(second) == {"broker": 3, "level": "warning"}
    assert third == "tidelog: broker 2 died"


def test_a_reader_of_complaints_that_is_gone_does_not_end_the_cluster() -> None:
    ClusterVoice(io.StringIO(), Closed(), "").say("anything")
