"""The options of the sink, and the columns that it writes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.columns import check_columns
from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.sink.modes import MODES, mode_of
from tidelog.pipeline.sink.options import SinkSettings, option_names

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text(json.dumps({"id": "the-query"}))
    return tmp_path


def of_stream(checkpoint: Path, **options: str) -> SinkSettings:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return SinkSettings.of_stream({**BROKERS, "checkpointlocation": str(checkpoint), **named})


def test_a_query_is_known_by_its_checkpoint(checkpoint: Path) -> None:
    settings = of_stream(checkpoint)
    assert (settings.sink_id, settings.commit_mode, settings.topic) == ("tidelog-the-query", "batch", None)
    assert (settings.offsets_group, settings.staging) == ("tidelog-the-query", checkpoint / "sink-staging")


def test_names_are_what_the_user_says(checkpoint: Path) -> None:
    settings = of_stream(checkpoint, sink__id="a/b", queryname="orders", staging__dir=f"file://{checkpoint}/s%20t")
    assert (settings.sink_id, settings.offsets_group) == ("a/b", "orders")
    assert settings.staging == checkpoint / "s t" / "sink-a%2Fb"
    assert of_stream(checkpoint, sink__id="s").offsets_group == "s"
    assert of_stream(checkpoint, queryname="orders", offsets__group="g").offsets_group == "g"
    assert of_stream(checkpoint, queryname="orders", offsets__group="none").offsets_group is None


def test_a_batch_job_has_a_name_and_a_directory_of_its_own(tmp_path: Path) -> None:
    first, second = (SinkSettings.of_batch({**BROKERS, "staging.dir": str(tmp_path)}) for _ in range(2))
    assert first.sink_id != second.sink_id
    assert first.staging != second.staging
    assert first.staging.parent == tmp_path
    assert SinkSettings.of_batch({**BROKERS, "sink.id": "s"}).sink_id == "s"


def test_settings_of_the_client_are_the_users_over_ours(checkpoint: Path) -> None:
    settings = of_stream(checkpoint, kafka__compression__type="zstd", kafka__linger__ms="7")
    config = settings.producer_config(transactional_id="t", is_two_phase=True)
    assert (config.compression_type.name, config.linger_ms, config.transactional_id) == ("ZSTD", 7, "t")
    assert config.is_two_phase
    assert settings.client_config().request_timeout_ms == 15_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"commit.mode": "task"}, r"Option commit\.mode: 'task' is not accepted, but .*batch.*2pc"),
        ({"sink.ids": "x"}, r"Option sink\.ids: .*did you mean sink\.id"),
        ({"kafka.acks": "1"}, r"Option kafka\.acks: .*takes all: .*commit\.mode to at-least-once"),
        ({"kafka.enable.idempotence": "false"}, r"Option kafka\.enable\.idempotence: .*takes true"),
        ({"kafka.retries": "0"}, r"Option kafka\.retries: '0' is not accepted, .*takes 1 or more: .*at-least-once"),
        ({"kafka.retries": "never"}, r"Option kafka\.retries: 'never' is not accepted"),
        (
            {"kafka.max.in.flight.requests.per.connection": "6"},
            r"Option kafka\.max\.in\.flight\.requests\.per\.connection: '6' is not accepted, .*takes 5 at most: leave",
        ),
        ({"kafka.value.serializer": "x"}, r"Option kafka\.value\.serializer: values are bytes"),
        ({"kafka.sasl.mechanism": "PLAIN"}, r"Option kafka\.sasl\.mechanism"),
        ({"kafka.no.such.thing": "1"}, r"Option kafka\.no\.such\.thing"),
        ({"staging.dir": "s3a://bucket/x"}, r"Option staging\.dir: 's3a://bucket/x' is not in a file system"),
        ({"checkpointlocation": ""}, r"Option checkpointLocation: set it on the query itself"),
        ({"checkpointlocation": "/nowhere"}, r"Option checkpointLocation: no id of the query can be read"),
        ({"sink.id": "x" * 201}, r"Option sink\.id: .*longer than 200 bytes"),
        ({"kafka.bootstrap.servers": ""}, r"Option kafka\.bootstrap\.servers"),
    ],
)
def test_what_cannot_be_used_is_named(checkpoint: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionRefused, match=message):
        SinkSettings.of_stream({**BROKERS, "checkpointlocation": str(checkpoint), **options})


def test_at_least_once_may_do_without_acknowledgements_of_all(checkpoint: Path) -> None:
    settings = of_stream(checkpoint, commit__mode="at-least-once", kafka__acks="1", kafka__retries="0")
    assert not settings.producer_config().enable_idempotence


def test_a_batch_job_has_no_position_to_commit() -> None:
    with pytest.raises(OptionRefused, match=r"Option offsets\.group: a batch job"):
        SinkSettings.of_batch({**BROKERS, "offsets.group": "g"})


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_is_made_without_side_effects_and_can_be_sent_to_tasks(checkpoint: Path, mode: str) -> None:
    made = mode_of(of_stream(checkpoint, commit__mode=mode))
    assert type(pickle.loads(pickle.dumps(made))) is type(made)  # noqa: S301
    assert [file.name for file in checkpoint.iterdir()] == ["metadata"]


def test_the_documentation_names_all_options() -> None:
    told = (Path(__file__).parents[3] / "docs" / "spark_sink.md").read_text()
    assert [name for name in option_names() if f"`{name}`" not in told] == []


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**columns: object) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])  # type: ignore[arg-type]


def test_all_columns_of_sparks_own_sink_are_taken_and_others_passed_over(checkpoint: Path) -> None:
    everything = schema(
        key=StringType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        headers=HEADERS,
        timestamp=LongType(),
    )
    check_columns(everything, of_stream(checkpoint))
    check_columns(schema(value=StringType()), of_stream(checkpoint, topic="t"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": IntegerType()}, "value must be binary or string, got int"),
        ({"value": BinaryType(), "key": LongType()}, "key must be binary or string, got bigint"),
        ({"value": BinaryType(), "topic": BinaryType()}, "topic must be string, got binary"),
        ({"value": BinaryType(), "partition": StringType()}, "partition must be int, got string"),
        ({"value": BinaryType(), "headers": StringType()}, "headers must be array<struct<key:string,value:binary>>"),
        ({"key": BinaryType()}, "no column value among key"),
    ],
)
def test_columns_of_other_types_are_named(checkpoint: Path, columns: dict[str, object], message: str) -> None:
    with pytest.raises(BadRows, match=message):
        check_columns(schema(**columns), of_stream(checkpoint, topic="t"))


def test_rows_must_say_where_they_go(checkpoint: Path) -> None:
    with pytest.raises(BadRows, match="set the option topic, or give every row a column topic"):
        check_columns(schema(value=BinaryType()), of_stream(checkpoint))
