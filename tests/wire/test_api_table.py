from __future__ import annotations

from pathlib import Path

import kio.schema

from tidelog.wire.api import API_TABLE, ApiKey, VersionRange, advertised_versions, api_of
from tidelog.wire.documentation import protocol_support_markdown
from tidelog.wire.messages.metadata import MetadataRequest


def test_table_is_in_order_of_keys_and_names_each_api_once() -> None:
    assert list(API_TABLE) == sorted(API_TABLE)
    assert all(key == api.key for key, api in API_TABLE.items())


def test_every_served_api_has_a_request_and_a_response_of_its_name() -> None:
    for api in API_TABLE.values():
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"
        assert api.name.lower() == api.key.name.replace("_", "").lower()


def test_every_change_belongs_to_a_served_version_and_no_later_version_is_undescribed() -> None:
    for api in API_TABLE.values():
        assert set(api.changes) <= set(api.served), api.name
        assert set(api.served) - set(api.changes) <= {0}, api.name


def test_keys_that_kio_knows_have_the_names_that_kio_gives_them() -> None:
    directories = {path.name for path in Path(next(iter(kio.schema.__path__))).iterdir()}
    removed = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}
    assert {key.name.lower() for key in ApiKey if key not in removed} <= directories


def test_produce_is_advertised_from_zero_so_that_librdkafka_believes_in_compression() -> None:
    produce = API_TABLE[ApiKey.PRODUCE]
    assert produce.advertised == VersionRange(0, 13)
    assert produce.served == VersionRange(3, 13)
    assert 2 not in produce.served
    assert 3 in produce.served


def test_advertised_versions_are_those_of_the_table() -> None:
    ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in advertised_versions()}
    assert ranges == {
        0: (0, 13),
        1: (4, 18),
        2: (1, 11),
        3: (0, 13),
        10: (0, 6),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        22: (0, 5),
        23: (2, 4),
        32: (1, 4),
        33: (0, 2),
        35: (1, 5),
        37: (0, 3),
        44: (0, 1),
        60: (0, 2),
        61: (0, 0),
        74: (0, 1),
        75: (0, 0),
    }


def test_a_request_knows_its_api() -> None:
    assert api_of(MetadataRequest(topics=None)) is API_TABLE[ApiKey.METADATA]


def test_protocol_support_page_shows_advertised_and_served_versions_and_what_each_added() -> None:
    page = protocol_support_markdown(API_TABLE)
    assert "| 0 | [Produce](#produce) | 0-13 | 3-13 | 9 |" in page
    assert "- v12: topics may be asked for by id" in page
    assert page.count("\n## ") == len(API_TABLE)
