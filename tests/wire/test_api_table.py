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
    ours = {ApiKey.DESCRIBE_REPLICAS, ApiKey.COUNT_VISIBLE_RECORDS, ApiKey.INJECT_FAULTS}
    assert {key.name.lower() for key in ApiKey if key not in removed | ours} <= directories


def test_what_kio_lacks_declares_itself_and_nothing_else_does() -> None:
    directories = {path.name for path in Path(next(iter(kio.schema.__path__))).iterdir()}
    declared = {api.key for api in API_TABLE.values() if api.declares_itself}
    assert declared == {key for key in API_TABLE if key.name.lower() not in directories}


def test_brokers_alone_speak_the_requests_of_the_controller_and_of_leaders_to_it() -> None:
    assert {key for key, api in API_TABLE.items() if api.is_broker_only} == {4, 5, 6, 7, 56}
    assert {key for key, api in API_TABLE.items() if api.is_private} == {30_000, 30_001, 30_002}


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
        8: (2, 10),
        9: (1, 10),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 6),
        16: (0, 5),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        22: (0, 6),
        23: (2, 4),
        24: (0, 5),
        25: (0, 4),
        26: (0, 5),
        27: (1, 2),
        28: (0, 5),
        32: (1, 4),
        33: (0, 2),
        35: (1, 5),
        37: (0, 3),
        42: (0, 2),
        43: (0, 2),
        44: (0, 1),
        45: (0, 1),
        46: (0, 0),
        47: (0, 0),
        60: (0, 2),
        61: (0, 0),
        65: (0, 0),
        66: (0, 2),
        68: (0, 1),
        69: (0, 1),
        74: (0, 1),
        75: (0, 0),
    }


def test_brokers_are_told_of_their_own_requests_and_nobody_of_private_ones() -> None:
    plain = {entry.api_key for entry in advertised_versions()}
    among_brokers = {entry.api_key: entry for entry in advertised_versions(with_broker_only=True)}
    assert set(among_brokers) - plain == {4, 5, 6, 7, 56}
    assert {key: (row.min_version, row.max_version) for key, row in among_brokers.items() if key not in plain} == {
        4: (7, 7),
        5: (4, 4),
        6: (8, 8),
        7: (3, 3),
        56: (2, 3),
    }


def test_a_request_knows_its_api() -> None:
    assert api_of(MetadataRequest(topics=None)) is API_TABLE[ApiKey.METADATA]


def test_protocol_support_page_shows_advertised_and_served_versions_and_what_each_added() -> None:
    page = protocol_support_markdown(API_TABLE)
    assert "| 0 | [Produce](#produce) | 0-13 | 3-13 | 9 |" in page
    assert "- v12: topics may be asked for by id" in page
    assert page.count("\n## ") == len(API_TABLE)
    assert "| 4 | [LeaderAndIsr](#leaderandisr) | brokers only | 7 | 4 |" in page
    assert "| 30000 | [DescribeReplicas](#describereplicas) | never | 0 | 0 |" in page
