"""Listeners: how they are written, and which fit together."""

from __future__ import annotations

import pytest

from tidelog.config import BrokerConfig, ConfigError, Listener, parse_listener, parse_listeners


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://localhost:9092", Listener("PLAINTEXT", "localhost", 9092)),
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
        ("plaintext://10.0.0.1:0", Listener("PLAINTEXT", "10.0.0.1", 0)),
        ("SSL://[::1]:9093", Listener("SSL", "::1", 9093)),
        ("EXT_1://[fe80::1%eth0]:65535", Listener("EXT_1", "fe80::1%eth0", 65535)),
    ],
)
def test_listener_is_name_host_and_port(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener
    assert parse_listener(str(listener)) == listener


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:65536",
        "PLAINTEXT://::1:9092",
        "A://h:-1",
        "A://h:1/x",
    ],
)
def test_anything_else_is_no_listener(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_listener(text)


@pytest.mark.parametrize("text", ["A://h:1,A://h:2", "A://h:1,B://h:1"])
def test_listeners_share_neither_name_nor_address(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_listeners(text)


def test_several_listeners_may_each_ask_for_a_free_port() -> None:
    assert [listener.name for listener in parse_listeners("A://h:0, B://h:0")] == ["A", "B"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "INTERNAL://:9092"}, "listeners"),
        ({"advertised.listeners": "SSL://h:9092"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://[::]:9092"}, "advertised.listeners"),
        ({"inter.broker.listener.name": "SSL"}, "inter.broker.listener.name"),
        ({"listener.security.protocol.map": "PLAINTEXT:ROT13"}, "listener.security.protocol.map"),
        ({"listener.security.protocol.map": "A:SSL,A:SSL"}, "listener.security.protocol.map"),
    ],
)
def test_listeners_that_do_not_fit_together_are_refused(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties(given)
    assert refused.value.name == name


def test_own_listener_names_speak_the_mapped_protocol() -> None:
    config = BrokerConfig.from_properties(
        {"listeners": "INTERNAL://:9092", "listener.security.protocol.map": "internal:PLAINTEXT"}
    )
    assert config.security_protocol("INTERNAL") == "PLAINTEXT"
