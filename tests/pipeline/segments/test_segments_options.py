"""The options of "tidelog-segments" are read, or refused with a sentence."""

from __future__ import annotations

import pytest

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.segments.options import read_options


def test_directories_are_separated_by_commas_or_are_a_json_list() -> None:
    assert read_options({"dir": "/a, /b"}).directories == ("/a", "/b")
    assert read_options({"DIR": '["/a,b", "/c"]'}).directories == ("/a,b", "/c")
    assert read_options({"path": "/a"}).directories == ("/a",)


def test_topics_and_partitions_may_be_several() -> None:
    options = read_options({"dir": "/a", "topic": "x,y", "partition": "0, 2", "maxbytespertask": "1000000"})
    assert (options.topics, options.partitions, options.task_bytes_max) == (("x", "y"), frozenset({0, 2}), 1_000_000)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Option dir: it must name the data directories"),
        ({"dir": "[1]"}, "Option dir: '\\[1\\]' begins as a JSON list"),
        ({"dir": "/a", "topics": "x"}, "Option topics: the format tidelog-segments has no such option; there are dir"),
        ({"dir": "/a", "partition": "one"}, "Option partition: 'one' is not accepted"),
        ({"dir": "/a", "maxBytesPerTask": "0"}, "Option maxBytesPerTask: '0' is not accepted"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionRefused, match=sentence):
        read_options(options)
