"""The marker, and the source offsets that a checkpoint tells of."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from tidelog.client import Committed
from tidelog.model import TopicPartition
from tidelog.pipeline.sink.errors import CheckpointChanged
from tidelog.pipeline.sink.ledger import FoundMarkers, Marker, marker_offsets
from tidelog.pipeline.sink.source_offsets import SourcePosition, merged, read_source_offsets
from tidelog.pipeline.source.offsets import Whose, written, written_end, written_initial


def marker(micro_batch_id: int, query_id: str = "q", note: str = "") -> Marker:
    return Marker(query_id=query_id, run_id="r", micro_batch_id=micro_batch_id, source_digest="d", note=note)


def test_a_marker_is_the_next_micro_batch_id_under_partition_0_of_every_topic() -> None:
    written = marker_offsets(marker(4, note="decision 7"), ["b", "a"])
    assert [(key, each.offset) for key, each in written.items()] == [
        (TopicPartition("a", 0), 5),
        (TopicPartition("b", 0), 5),
    ]
    assert {Marker.parse(each) for each in written.values()} == {marker(4, note="decision 7")}


@pytest.mark.parametrize("text", ["", "{}", "[1]", "somebody's note", '{"query_id": "q"}', '{"unknown": 1}', "7"])
def test_what_somebody_else_committed_is_no_marker(text: str) -> None:
    assert Marker.parse(Committed(5, metadata=text)) is None


def test_the_newest_marker_of_the_query_counts() -> None:
    found = FoundMarkers(markers={"a": marker(3), "b": marker(7), "c": marker(7), "d": marker(90, "another query")})
    assert found.last_of("q") == marker(7)
    assert found.topics_of(marker(7)) == ["b", "c"]
    assert found.last_of("nobody") is None
    assert found.with_marker(marker(8), ["a"]).last_of("q") == marker(8)


def offsets(tmp_path: Path, *lines: str, version: str = "v1") -> Path:
    (tmp_path / "offsets").mkdir(exist_ok=True)
    (tmp_path / "offsets" / "3").write_text("\n".join([version, '{"batchWatermarkMs":0}', *lines]))
    return tmp_path


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['{"t": {"0": 5, "11": 6}, "@since": {"t": {"0": 1}}}'], {("t", 0): 5, ("t", 11): 6}),
        (
            ['{"t":{"0":5}}', '{"t":{"0":3},"u":{"1":9}}', "-", "7", '{"logOffset":2}'],
            {("t", 0): 3, ("u", 1): 9},
        ),
        (['{"@topics": {"t": {"0": 1}}, "t": {"0": 5}, "@cluster": "c"}'], {("t", 0): 5}),
        (['{"t": {"x": 1, "0": "2", "1": -1}}', "[]", "not json"], {}),
    ],
)
def test_positions_of_all_topics_are_read_whatever_else_is_read(
    lines: list[str], expected: dict[tuple[str, int], int], tmp_path: Path
) -> None:
    sources = read_source_offsets(offsets(tmp_path, *lines), 3).sources
    positions = merged(each.positions for each in sources)
    assert {tuple(key): offset for key, offset in positions.items()} == expected


def test_the_digest_is_of_what_the_sources_say_and_of_nothing_else(tmp_path: Path) -> None:
    first = read_source_offsets(offsets(tmp_path, '{"t":{"0":5}}'), 3).digest
    file = tmp_path / "offsets" / "3"
    file.write_text(file.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs":99'))
    assert read_source_offsets(tmp_path, 3).digest == first
    assert read_source_offsets(offsets(tmp_path, '{"t":{"0":6}}'), 3).digest != first
    assert read_source_offsets(offsets(tmp_path, '{"t":{"0":5}}', version="v2"), 3).sources == ()


def test_a_source_may_tell_of_which_cluster_its_topics_are(tmp_path: Path) -> None:
    lines = ['{"t":{"0":5},"@cluster":"here"}', '{"t":{"0":5}}', '{"t":{"0":5},"@cluster":{"0":1}}']
    sources = read_source_offsets(offsets(tmp_path, *lines), 3).sources
    assert [each.cluster_id for each in sources] == ["here", None, None]
    assert [each.may_be_of("here") for each in sources] == [True, True, True]
    assert [each.may_be_of("there") for each in sources] == [False, True, True]
    assert [each.may_be_of(None) for each in sources] == [True, True, True]


def test_what_our_source_writes_down_is_what_the_sink_reads(tmp_path: Path) -> None:
    key = TopicPartition("t", 0)
    whose = Whose(cluster_id="here", topic_ids={"t": UUID(int=7)})
    for start in (written_initial({key: 1}, whose), {**written({key: 1})}):
        line = json.dumps(written_end(start, {key: 5}, {key: 1}, whose))
        assert read_source_offsets(offsets(tmp_path, line), 3).sources == (
            SourcePosition(positions={key: 5}, cluster_id="here"),
        )


def test_a_position_beyond_the_end_of_a_log_is_of_another_one_and_so_is_all_that_its_source_says() -> None:
    here, there, unknown = (TopicPartition("t", index) for index in range(3))
    source = SourcePosition(positions={here: 5, there: 7, unknown: 9}, cluster_id=None)
    assert source.within({here: 5, there: 8}) == {here: 5, there: 7}
    assert source.within({here: 5, there: 6}) == {}


def test_a_checkpoint_without_offsets_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointChanged, match="no offsets of micro-batch 4"):
        read_source_offsets(offsets(tmp_path), 4)
