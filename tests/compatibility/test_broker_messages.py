"""The requests of a controller and its brokers, byte by byte as the last Kafka that had them wrote and read them."""

from __future__ import annotations

import dataclasses
import json
import typing
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compatibility.apache_kafka import ToolMissing, jars, old_client_jars
from tests.compatibility.drivers import Driver
from tests.wire.oracle import Case, innermost, is_nullable
from tidelog.model import ErrorCode
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.schema import KafkaType

pytestmark = pytest.mark.compat
_SOURCE: Final = Path(__file__).with_name("java") / "MessageBytes.java"
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNUSUAL_NAMES: Final = {"is_kraft_controller": "isKRaftController"}
_DROPPED_BY_KAFKA: Final = [
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
]
_CASES: Final = [
    Case(key, API_TABLE[key].served.high, is_request=is_request)
    for key in _DROPPED_BY_KAFKA
    for is_request in (True, False)
]
_MANY: Final = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.fixture(scope="module")
def kafka_messages() -> Iterator[Driver]:
    """Kafka 3.9's messages; its client brings no JSON along, which is found beside the newer one."""
    try:
        classpath = f"{old_client_jars()}/*:" + ":".join(map(str, sorted(jars().glob("jackson-*.jar"))))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with Driver(["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath, str(_SOURCE)]) as driver:
        yield driver


@pytest.mark.parametrize("case", _CASES, ids=str)
@_MANY
@given(data=st.data())
def test_kafka_writes_the_bytes_that_we_write(kafka_messages: Driver, case: Case, data: st.DataObject) -> None:
    message = data.draw(_messages(case.our_type))
    ((written,),) = kafka_messages.ask("bytes", case.our_type.__name__, case.version, _text(_as_json(message)))
    ours = b"".join(case.encode(message))
    assert ours == b64decode(written)
    assert case.decode(ours) == message


@pytest.mark.parametrize("case", _CASES, ids=str)
@_MANY
@given(data=st.data())
def test_kafka_reads_what_we_write(kafka_messages: Driver, case: Case, data: st.DataObject) -> None:
    message = data.draw(_messages(case.our_type))
    ours = b64encode(b"".join(case.encode(message))).decode()
    ((read,),) = kafka_messages.ask("json", case.our_type.__name__, case.version, ours)
    expected = _as_json(message)
    if case.key is ApiKey.UPDATE_METADATA and expected.get("type") == 0:
        del expected["type"]  # a tagged field that has its default
    assert json.loads(b64decode(read)) == expected


def _messages(our_type: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(our_type, include_extras=True)
    return st.builds(our_type, **{field.name: _values(hints[field.name]) for field in dataclasses.fields(our_type)})


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if is_nullable(hint):
        return st.none() | _values(typing.get_args(hint)[0])
    if typing.get_origin(hint) is tuple:
        return st.lists(_values(typing.get_args(hint)[0]), max_size=2).map(tuple) | _long_tuples(hint)
    if typing.get_origin(hint) is typing.Annotated:
        (bits,) = (_BITS[word.name] for word in typing.get_args(hint)[1:] if isinstance(word, KafkaType))
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return st.sampled_from([low, -2, -1, 0, 1, high]) | st.integers(low, high)
    return _messages(typing.cast("type[Any]", hint)) if dataclasses.is_dataclass(hint) else _PLAIN[hint]


def _long_tuples(hint: Any) -> st.SearchStrategy[Any]:
    """Counts of more than one byte; of numbers only, since structs of structs would grow without end."""
    return st.nothing() if dataclasses.is_dataclass(innermost(hint)) else st.just(tuple(range(200)))


_PLAIN: Final[dict[Any, st.SearchStrategy[Any]]] = {
    bool: st.booleans(),
    str: st.sampled_from(["", "orders", "größe-日本", "x" * 126, "x" * 127, "x" * 300]) | st.text(max_size=3),
    UUID: st.uuids(version=4) | st.just(UUID(int=1)),
    ErrorCode: st.sampled_from(list(ErrorCode)),
}


def _as_json(value: Any) -> Any:
    match value:
        case tuple():
            return [_as_json(element) for element in value]
        case UUID():
            return urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case ErrorCode():
            return int(value)
        case _ if dataclasses.is_dataclass(value):
            hints = typing.get_type_hints(type(value))
            return {
                _kafka_name(field.name): _field_json(getattr(value, field.name), hints[field.name])
                for field in dataclasses.fields(value)
            }
        case _:
            return value


def _field_json(value: Any, hint: Any) -> Any:
    no_uuid = value is None and innermost(hint) is UUID
    return _as_json(UUID(int=0) if no_uuid else value)


def _kafka_name(name: str) -> str:
    first, *others = name.split("_")
    return _UNUSUAL_NAMES.get(name, first + "".join(word.capitalize() for word in others))


def _text(value: Any) -> str:
    return b64encode(json.dumps(value).encode()).decode()
