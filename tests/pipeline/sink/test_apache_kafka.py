"""Mode batch against Apache Kafka: nothing but its public requests is needed, under both of its transaction protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing, jars
from tests.pipeline.hand import Hand
from tests.pipeline.sink.driving import DrivenQuery
from tests.pipeline.sink.looking import committed, open_transactions
from tests.pipeline.sink.test_batch_commit import Crashed, DyingCommit
from tidelog.model import TopicPartition
from tidelog.pipeline.sink.errors import SinkFenced, TopicMissing

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]

VERSIONS = ["1", "2"]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    try:
        jars()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    properties = {"auto.create.topics.enable": "false"}
    with KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=properties) as process:
        yield process


@pytest.fixture
def hand(kafka: KafkaProcess) -> Iterator[Hand]:
    opened = Hand(kafka.bootstrap)
    yield opened
    opened.close()


def begin(kafka: KafkaProcess, checkpoint: Path, run: str, topic: str, version: str) -> DrivenQuery:
    options = {"kafka__tidelog__transaction__version__max": version, "queryName": f"group-of-{topic}"}
    return DrivenQuery(kafka.bootstrap, checkpoint, run=run, topic=topic, **options)


def values(hand: Hand, topic: str) -> Counter[bytes]:
    return Counter(record.value or b"" for record in hand.read(topic))


@pytest.mark.parametrize("version", VERSIONS)
def test_micro_batches_are_there_once_through_replays_and_fences(
    version: str, kafka: KafkaProcess, hand: Hand, topic: str, tmp_path: Path
) -> None:
    hand.create(topic, 3)
    first, second = (begin(kafka, tmp_path, run, topic, version) for run in ("run-1", "run-2"))
    first.plan(0, {topic: {"0": 0, "2": 0}})
    first.run_micro_batch(0, [b"0"] * 100, [b"0"] * 100)
    first.run_micro_batch(0, [b"again"])
    stale = first.write(1, [b"stale"])
    second.run_micro_batch(1, [b"1"])
    with pytest.raises(SinkFenced, match=f"sink id '{first.settings.sink_id}'"):
        first.mode.commit(stale, 1)
    second.run_micro_batch(2, [b"2"])
    assert values(hand, topic) == {b"0": 200, b"1": 1, b"2": 1}
    group = committed(kafka.bootstrap, f"group-of-{topic}")
    assert group == {TopicPartition(topic, 0): 0, TopicPartition(topic, 2): 0}
    for query in (first, second):
        query.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("step", ["send_output", "send_source_offsets", "decide"])
def test_a_driver_may_die(
    step: str,
    version: str,
    kafka: KafkaProcess,
    hand: Hand,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog.pipeline.sink.batch_commit.forget_driver_client", lambda _settings: None)
    hand.create(topic, 2)
    first, second = (begin(kafka, tmp_path, run, topic, version) for run in ("run-1", "run-2"))
    with pytest.raises(Crashed):
        DyingCommit(first, step, is_after=True).commit(first.write(0, [b"0"] * 10), 0)
    second.run_micro_batch(0, [b"0"] * 10)
    second.run_micro_batch(1, [b"1"] * 10)
    assert values(hand, topic) == {b"0": 10, b"1": 10}
    assert not [each for each in open_transactions(kafka.bootstrap) if each.transactional_id == second.settings.sink_id]
    for query in (first, second):
        query.close()


def test_a_topic_that_does_not_exist_is_named(kafka: KafkaProcess, topic: str, tmp_path: Path) -> None:
    with pytest.raises(TopicMissing, match=topic):
        begin(kafka, tmp_path, "run-1", topic, "2").write(0, [b"a"])


def test_at_least_once_and_every_codec(kafka: KafkaProcess, hand: Hand, topic: str, tmp_path: Path) -> None:
    hand.create(topic)
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for mode in ("batch", "at-least-once"):
        for codec in codecs:
            options = {"commit__mode": mode, "kafka__compression__type": codec, "sink__id": f"{topic}-{mode}-{codec}"}
            query = DrivenQuery(kafka.bootstrap, tmp_path / f"{mode}-{codec}", topic=topic, **options)
            query.run_micro_batch(0, [codec.encode() * 50] * 20)
            query.close()
    assert values(hand, topic) == {codec.encode() * 50: 40 for codec in codecs}
