"""Where a broker says it is: what clients dialled, what it advertises, on IPv4 and IPv6, on several listeners."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.broker.conversation import Conversation
from tests.compatibility.processes import TidelogProcess
from tidelog.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.slow


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")


def told(address: str) -> tuple[str, int]:
    """Where the broker says it is, to somebody who dialled `address`."""
    with Conversation(address) as conversation:
        (broker,) = conversation.ask(MetadataRequest(topics=()), 9).brokers
        return broker.host, broker.port


def test_a_client_of_a_wildcard_listener_gets_back_the_address_it_dialled(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path / "data", "--host", "0.0.0.0") as process:  # noqa: S104  # what is tested
        for host in ("127.0.0.1", "127.0.0.2"):
            assert told(f"{host}:{process.port}") == (host, process.port)


@needs_ipv6
def test_a_broker_serves_ipv6_and_says_so(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path / "data", "--host", "::1") as process:
        assert process.bootstrap == f"[::1]:{process.port}"
        assert told(process.bootstrap) == ("::1", process.port)
        listed = AdminClient({"bootstrap.servers": process.bootstrap}).list_topics(timeout=60)
        assert [broker.id for broker in listed.brokers.values()] == [1]


@needs_ipv6
def test_the_wildcard_of_ipv6_is_answered_with_what_was_dialled(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path / "data", "--host", "::") as process:
        assert told(f"[::1]:{process.port}") == ("::1", process.port)


def test_an_advertised_address_wins_and_port_0_is_the_one_that_was_picked(tmp_path: Path) -> None:
    option = "advertised.listeners=PLAINTEXT://broker.example:0"
    with TidelogProcess(tmp_path / "data", "-X", option) as process:
        assert told(process.bootstrap) == ("broker.example", process.port)


def test_a_client_is_told_the_endpoint_of_the_listener_it_came_in_on(tmp_path: Path) -> None:
    listeners = "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.2:0"
    protocols = "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    with TidelogProcess(tmp_path / "data", "-X", listeners, "-X", protocols) as process:
        inside, outside = process.bootstrap.split(",")
        for dialled in (inside, outside):
            host, port = told(dialled)
            assert f"{host}:{port}" == dialled
        assert inside != outside
