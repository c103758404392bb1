"""Kafka's own words in the registry: golden texts, and refusal of what is none."""

from __future__ import annotations

import dataclasses
import json
from uuid import UUID

import pytest

from tests.controller.clusters import TOPIC_ID, state
from tidelog.config import Listener
from tidelog.controller import MalformedNode, layout
from tidelog.registry import Node


def node(text: str, version: int = 0, czxid: int = 1) -> Node:
    return Node(data=text.encode(), version=version, czxid=czxid)


def test_controller_node() -> None:
    content = layout.encode_controller(3, 1_700_000_000_000)
    assert json.loads(content) == {
        "version": 2,
        "brokerid": 3,
        "timestamp": "1700000000000",
        "kraftControllerEpoch": -1,
    }
    assert layout.decode_controller(node('{"version":1,"brokerid":3,"timestamp":"1"}')) == 3


def test_broker_node() -> None:
    registration = layout.Registration(
        broker_id=1,
        endpoints=(Listener("TLS", "h", 9093), Listener("PLAINTEXT", "::1", 9092)),
        security_protocols={"TLS": "SSL", "PLAINTEXT": "PLAINTEXT"},
        rack="r1",
        registered_ms=5,
    )
    content = layout.encode_broker(registration)
    assert json.loads(content) == {
        "version": 5,
        "host": "::1",
        "port": 9092,
        "endpoints": ["TLS://h:9093", "PLAINTEXT://[::1]:9092"],
        "listener_security_protocol_map": {"TLS": "SSL", "PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "timestamp": "5",
        "rack": "r1",
        "features": {},
        "tidelog": {"intact": True, "min_isr": 1},
    }
    broker = layout.decode_broker(1, Node(data=content, version=0, czxid=77))
    assert (broker.broker_epoch, broker.rack, broker.endpoints["TLS"]) == (77, "r1", Listener("TLS", "h", 9093))


def test_broker_without_plaintext_listener_has_no_host() -> None:
    registration = layout.Registration(
        broker_id=1,
        endpoints=(Listener("SSL", "h", 9093),),
        security_protocols={"SSL": "SSL"},
        rack=None,
        registered_ms=5,
    )
    content = json.loads(layout.encode_broker(registration))
    assert (content["host"], content["port"], "rack" in content) == (None, -1, False)


def test_topic_node() -> None:
    content = layout.encode_topic(TOPIC_ID, {0: state((1, 2)), 1: state((2, 1))})
    assert content == (
        b'{"version":3,"partitions":{"0":[1,2],"1":[2,1]},"adding_replicas":{},"removing_replicas":{},'
        b'"topic_id":"ERERESIiQzOERFVVVVVVVQ"}'
    )
    stored = layout.decode_topic("t", Node(data=content, version=0, czxid=1))
    assert (stored.topic_id, stored.assignments) == (TOPIC_ID, {0: (1, 2), 1: (2, 1)})


def test_topic_of_an_old_kafka_has_no_id_and_can_be_given_one() -> None:
    old = node('{"version":2,"partitions":{"0":[1]},"adding_replicas":{"0":[2]},"removing_replicas":{}}')
    assert layout.decode_topic("t", old).topic_id is None
    content = json.loads(layout.add_topic_id("t", old, TOPIC_ID))
    assert (content["topic_id"], content["adding_replicas"]) == ("ERERESIiQzOERFVVVVVVVQ", {"0": [2]})


def test_state_node() -> None:
    content = layout.encode_state(state((1, 2), epoch=4), controller_epoch=7)
    assert content == b'{"version":1,"leader":1,"leader_epoch":4,"controller_epoch":7,"isr":[1,2]}'
    stored = layout.decode_state("/s", Node(data=content, version=9, czxid=1))
    assert (stored.leader, stored.leader_epoch, stored.controller_epoch) == (1, 4, 7)
    assert (stored.isr, stored.partition_epoch) == ((1, 2), 9)


def test_config_node() -> None:
    assert layout.encode_configs({"b": "2", "a": "1"}) == b'{"version":1,"config":{"a":"1","b":"2"}}'
    assert layout.decode_configs("/config/topics/t", node('{"version":1,"config":{"a":"1"}}')) == {"a": "1"}


def test_producer_id_block_node() -> None:
    assert layout.encode_producer_id_block(2, range(1000, 2000)) == (
        b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}'
    )
    assert layout.next_producer_id(node('{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}')) == 2000
    assert layout.next_producer_id(node("")) == 0


def test_cluster_id_node() -> None:
    content = layout.encode_cluster_id(layout.encode_uuid(UUID(int=5)))
    assert content == b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAABQ"}'
    assert layout.decode_cluster_id(Node(data=content, version=0, czxid=1)) == "AAAAAAAAAAAAAAAAAAAABQ"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"partitions":[]}',
        '{"partitions":{"0":[]}}',
        '{"partitions":{"1":[1]}}',
        '{"partitions":{"x":[1]}}',
        '{"partitions":{"0":["1"]}}',
        '{"partitions":{"0":[true]}}',
        '{"partitions":{"0":1}}',
        '{"partitions":{"0":[1]},"topic_id":5}',
        '{"partitions":{"0":[1]},"topic_id":"short"}',
    ],
)
def test_malformed_topic_node_is_named(text: str) -> None:
    with pytest.raises(MalformedNode, match="registry node /brokers/topics/t: "):
        layout.decode_topic("t", node(text))


@pytest.mark.parametrize("text", ['{"leader":1}', '{"leader":"1","leader_epoch":0,"controller_epoch":0,"isr":[]}'])
def test_malformed_state_node_is_named(text: str) -> None:
    with pytest.raises(MalformedNode, match="registry node /s: "):
        layout.decode_state("/s", node(text))


def test_other_malformed_nodes_are_named() -> None:
    with pytest.raises(MalformedNode):
        layout.decode_controller_epoch(node("one"))
    with pytest.raises(MalformedNode):
        layout.next_producer_id(node('{"block_end":"-5"}'))
    with pytest.raises(MalformedNode):
        layout.decode_broker(1, node('{"endpoints":["nowhere"]}'))
    with pytest.raises(MalformedNode):
        layout.decode_configs("/config/topics/t", node('{"config":{"a":1}}'))


def test_state_with_standing_says_more_in_fields_that_kafka_passes_over() -> None:
    written = dataclasses.replace(state((1, 2, 3), isr=(1,), eligible=(2,), lost=(3,)), is_recovering=True)
    content = layout.encode_state(written, controller_epoch=7)
    assert json.loads(content) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 3,
        "controller_epoch": 7,
        "isr": [1],
        "leader_recovery_state": 1,
        "eligible": [2],
        "lost": [3],
    }
    stored = layout.decode_state("/s", Node(data=content, version=9, czxid=1))
    assert (stored.eligible, stored.lost, stored.is_recovering) == ((2,), (3,), True)


def test_topic_that_moves_says_what_comes_and_what_goes() -> None:
    moving = dataclasses.replace(state((3, 1, 2)), adding=(3,), removing=(2,))
    content = layout.encode_topic(TOPIC_ID, {0: moving, 1: state((1, 2))})
    assert json.loads(content) == {
        "version": 3,
        "partitions": {"0": [3, 1, 2], "1": [1, 2]},
        "adding_replicas": {"0": [3]},
        "removing_replicas": {"0": [2]},
        "topic_id": "ERERESIiQzOERFVVVVVVVQ",
    }
    stored = layout.decode_topic("t", Node(data=content, version=0, czxid=1))
    assert (stored.adding, stored.removing) == ({0: (3,)}, {0: (2,)})


@pytest.mark.parametrize(
    ("extra", "is_intact"), [("", True), (',"tidelog":{"intact":true}', True), (',"tidelog":{"intact":false}', False)]
)
def test_broker_of_a_kafka_is_taken_to_be_intact(extra: str, *, is_intact: bool) -> None:
    text = f'{{"version":5,"endpoints":["PLAINTEXT://h:1"]{extra}}}'
    assert layout.decode_broker(1, node(text)).is_intact is is_intact


def test_incarnation_node() -> None:
    last = layout.LastRegistration(77, is_intact=False)
    content = layout.encode_incarnation(last)
    assert content == b'{"version":1,"broker_epoch":77,"intact":false}'
    assert layout.decode_incarnation(1, Node(data=content, version=0, czxid=1)) == last


def test_known_epochs_node() -> None:
    content = layout.encode_known_epochs({2: 20, 1: 10})
    assert content == b'{"version":1,"epochs":{"1":10,"2":20}}'
    assert layout.decode_known_epochs(Node(data=content, version=0, czxid=1)) == {1: 10, 2: 20}
    assert layout.decode_known_epochs(Node(data=b"", version=0, czxid=1)) == {}


def test_notification_tells_whose_settings_have_changed() -> None:
    content = layout.encode_change("/config/topics/t", 2)
    assert content == b'{"version":2,"entity_path":"topics/t","tidelog":{"min_isr_before":2}}'
    told = Node(data=content, version=0, czxid=1)
    assert layout.decode_change("/config/changes/c", told) == "/config/topics/t"
    assert layout.minimum_before("/config/changes/c", told) == 2


def test_notification_that_kafka_wrote_says_nothing_of_the_minimum_before() -> None:
    told = Node(data=b'{"version":2,"entity_path":"topics/t"}', version=0, czxid=1)
    assert layout.decode_change("/config/changes/c", told) == "/config/topics/t"
    assert layout.minimum_before("/config/changes/c", told) is None
