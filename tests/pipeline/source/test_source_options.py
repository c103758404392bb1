"""The options of the source: what is accepted, and what is said where it is not."""

from __future__ import annotations

import pytest

from tidelog.model import IsolationLevel, TopicPartition
from tidelog.pipeline.options import OptionRefused, UnknownOption
from tidelog.pipeline.source.bounds import Bound, Edge, Moment, Moments, Places
from tidelog.pipeline.source.columns import as_ddl, columns_asked_for
from tidelog.pipeline.source.options import ByName, ByPartition, SourceOptions, asked_columns

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
TOPIC = {**BROKER, "subscribe": "orders"}


def batch(**more: str) -> SourceOptions:
    return SourceOptions.of_batch({**TOPIC, **more})


def stream(**more: str) -> SourceOptions:
    return SourceOptions.of_stream({**TOPIC, **more})


def refusal(options: dict[str, str], *, streams: bool = False) -> OptionRefused:
    with pytest.raises(OptionRefused) as caught:
        (SourceOptions.of_stream if streams else SourceOptions.of_batch)(options)
    return caught.value


def test_a_batch_reads_from_the_earliest_to_the_latest_and_a_stream_from_the_latest_on() -> None:
    assert (batch().starting.where, batch().ending.where) == (Edge.EARLIEST, Edge.LATEST)
    assert stream().starting.where is Edge.LATEST


def test_only_committed_records_are_read_unless_told_otherwise() -> None:
    assert batch().client.isolation_level is IsolationLevel.READ_COMMITTED
    loose = batch(**{"kafka.isolation.level": "read_uncommitted"})
    assert loose.client.isolation_level is IsolationLevel.READ_UNCOMMITTED


def test_the_case_of_names_does_not_matter() -> None:
    assert batch(MAXOFFSETSPERTRIGGER="7").offsets_max == 7


def test_topics_may_have_blanks_around_their_names() -> None:
    assert batch(subscribe="b, a,b").subscription == ByName(("a", "b"))


def test_partitions_are_assigned_in_json() -> None:
    options = SourceOptions.of_batch({**BROKER, "assign": '{"b":[2,1],"a":[0]}'})
    expected = (TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("b", 2))
    assert options.subscription == ByPartition(expected)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"startingOffsets": "latest"}, Bound(option="startingOffsets", where=Edge.LATEST)),
        (
            {"startingOffsets": '{"t":{"0":3,"1":-2,"2":-1}}'},
            Bound(
                option="startingOffsets",
                where=Places({TopicPartition("t", 0): 3, TopicPartition("t", 1): -2, TopicPartition("t", 2): -1}),
            ),
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":99}}', "startingOffsets": "earliest"},
            Bound(option="startingOffsetsByTimestamp", where=Moments({TopicPartition("t", 0): 99})),
        ),
        (
            {"startingTimestamp": "7", "startingOffsetsByTimestamp": '{"t":{"0":99}}'},
            Bound(option="startingTimestamp", where=Moment(7)),
        ),
    ],
)
def test_a_time_for_all_goes_before_times_for_each_and_those_before_offsets(
    written: dict[str, str], expected: Bound
) -> None:
    assert stream(**written).starting == expected


@pytest.mark.parametrize(
    ("written", "expected_ms"), [("500ms", 500), ("2s", 2000), ("15m", 900_000), ("1h", 3_600_000), ("250", 250)]
)
def test_delays_are_written_as_spark_writes_times(written: str, expected_ms: int) -> None:
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay=written).delay_max_ms == expected_ms


def test_settings_of_groups_and_of_kafkas_own_clients_do_no_harm() -> None:
    batch(
        groupIdPrefix="mine",
        **{"kafka.group.id": "g", "kafka.metric.reporters": "x", "kafka.session.timeout.ms": "9000"},
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"subscribes": "t"}, "Option subscribes: the format tidelog has no such option; did you mean subscribe?"),
        ({"startingoffset": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.isolation.levle": "x"}, "did you mean kafka.isolation.level?"),
        (
            {"kafka.isolation.level": "snapshot"},
            "'snapshot' is not accepted, but one of read_uncommitted, read_committed",
        ),
        ({"maxOffsetsPerTrigger": "many"}, "Option maxOffsetsPerTrigger: 'many' is not accepted, but a whole number"),
        ({"maxOffsetsPerTrigger": "0"}, "Option maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "perhaps"}, "Option failOnDataLoss: 'perhaps' is not accepted, but true or false is"),
        ({"startingOffsets": "newest"}, "Option startingOffsets: 'newest' is not accepted, but earliest, latest, or"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "Option startingOffsets"),
        ({"startingOffsets": '{"t":{"x":3}}'}, "Option startingOffsets"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "Option startingOffsets"),
        ({"startingOffsets": '{"t":[0]}'}, "Option startingOffsets"),
        ({"startingOffsets": "latest"}, "a batch query cannot begin at latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "a batch query cannot begin at latest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "a batch query cannot end at earliest"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "Option startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "one of error, latest"),
        ({"assign": '{"t":[0]}'}, "subscribe and assign are set, but only one can be"),
        (
            {"minPartitions": "5", "maxPartitions": "4"},
            "Option minPartitions: 5 is more than maxPartitions, which is 4",
        ),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "Option minOffsetsPerTrigger: 5 is more than"),
        ({"maxTriggerDelay": "soon"}, "a time such as 500ms, 30s, 15m or 2h"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "Option kafka.auto.offset.reset: say where to begin with startingOffsets",
        ),
        ({"kafka.value.deserializer": "x"}, "values are bytes"),
        ({"kafka.security.protocol": "SASL_SSL"}, "Option kafka.security.protocol: tidelog speaks to brokers without"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "Option kafka.sasl.mechanism: tidelog speaks to brokers without"),
        ({"kafka.ssl.truststore.location": "/x"}, "Option kafka.ssl.truststore.location"),
        ({"kafka.bootstrap.servers": ""}, "Option kafka.bootstrap.servers: it must name one broker or several"),
        (
            {"kafka.bootstrap.servers": "nowhere"},
            "'nowhere' is not accepted, but a comma-separated list of host:port is",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_option_and_what_is_accepted(written: dict[str, str], said: str) -> None:
    assert said in str(refusal({**TOPIC, **written}))


def test_nothing_to_read_is_said_so() -> None:
    assert "set exactly one of subscribe, subscribePattern and assign" in str(refusal(BROKER))


def test_a_pattern_that_is_none_is_refused() -> None:
    assert "Option subscribePattern: '(' is not accepted" in str(refusal({**BROKER, "subscribePattern": "("}))


def test_plaintext_may_be_said() -> None:
    batch(**{"kafka.security.protocol": "plaintext"})


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    value = "latest" if option == "endingOffsets" else "5"
    assert f"Option {option}: a streaming query has no end" in str(refusal({**TOPIC, option: value}, streams=True))


def test_an_unknown_option_far_from_any_other_names_them_all() -> None:
    with pytest.raises(UnknownOption, match="there are subscribe, subscribePattern, assign"):
        batch(xyzzy="1")


def test_columns_are_those_of_sparks_own_source() -> None:
    columns = columns_asked_for(*asked_columns(TOPIC)[:1], includes_headers=False)
    assert columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_columns_may_be_chosen() -> None:
    names, includes_headers = asked_columns({**TOPIC, "columns": "value, offset"})
    assert as_ddl(columns_asked_for(names, includes_headers=includes_headers)) == "value binary, offset bigint"


@pytest.mark.parametrize(("columns", "said"), [("valeu", "did you mean value"), ("value,value", "named twice")])
def test_columns_that_are_not_there_are_refused(columns: str, said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        columns_asked_for(tuple(columns.split(",")), includes_headers=False)
