from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.wire.oracle import Case, converted, innermost, is_nullable, kio_bytes, kio_cases, messages, our_name

EVERY_VERSION = pytest.mark.parametrize("case", list(kio_cases()), ids=str)
# kio has one module per direction; we have one for both, which needs two names. And it has one type per shape that a version gives
# to the same thing; we have one per thing.
RENAMED = {
    ("response", "TopicData"): "AlteredTopic",
    ("response", "PartitionData"): "AlteredPartition",
    ("request", "OffsetFetchRequestTopic"): "OffsetFetchRequestTopics",
    ("response", "OffsetFetchResponseTopic"): "OffsetFetchResponseTopics",
    ("response", "OffsetFetchResponsePartition"): "OffsetFetchResponsePartitions",
}
FEW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@EVERY_VERSION
@FEW
@given(data=st.data())
def test_encodes_the_bytes_that_kio_encodes_and_decodes_them_back(case: Case, data: st.DataObject) -> None:
    message = data.draw(messages(case.kio_type))
    ours = converted(message, case.our_type)
    body = kio_bytes(message)
    assert b"".join(case.encode(ours)) == body
    assert case.decode(bytearray(body)) == ours


@EVERY_VERSION
def test_every_field_of_every_version_has_its_place_in_our_type(case: Case) -> None:
    assert_fits(case.kio_type, case.our_type)


def assert_fits(kio_type: Any, our_type: Any) -> None:
    assert our_type.__name__ in {
        kio_type.__name__,
        RENAMED.get((kio_type.__module__.split(".")[-1], kio_type.__name__)),
    }
    hints = typing.get_type_hints(our_type)
    ours = {field.name: field for field in dataclasses.fields(our_type)}
    for field in dataclasses.fields(kio_type):
        our_field = ours.pop(our_name(field))
        is_time = our_field.name.endswith("_ms")
        assert is_time or is_nullable(hints[our_field.name]) or not is_nullable(field.type), our_field.name
        if field.default is not dataclasses.MISSING and our_field.default is not dataclasses.MISSING and not is_time:
            expected = field.default
            if dataclasses.is_dataclass(expected):
                expected = converted(expected, innermost(hints[our_field.name]))
            assert our_field.default == expected, our_field.name
        if dataclasses.is_dataclass(innermost(field.type)):
            assert_fits(innermost(field.type), innermost(hints[our_field.name]))
    for absent in ours.values():
        assert absent.default is not dataclasses.MISSING, f"{our_type.__name__}.{absent.name} needs a default"
