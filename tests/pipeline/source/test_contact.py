"""Brokers that are not there, or are none, are noticed within seconds, and the error says who was asked and what came of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidelog.client import ConsumerConfig
from tidelog.pipeline.source import contact as module
from tidelog.pipeline.source.contact import Contact
from tidelog.pipeline.source.errors import BrokersSilent
from tidelog.testing.ports import free_ports

pytestmark = pytest.mark.timed


def refusal(servers: str, **settings: str) -> tuple[str, float]:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    began_s = time.monotonic()
    with pytest.raises(BrokersSilent) as caught:
        Contact(ConsumerConfig.from_properties({"bootstrap.servers": servers, **properties}))
    return str(caught.value), time.monotonic() - began_s


@contextmanager
def listener(*, hangs_up: bool) -> Iterator[int]:
    """Accepts connections; then says nothing, or hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                if hangs_up:
                    accepted.close()
                else:
                    kept.append(accepted)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for each in kept:
            each.close()


def test_addresses_where_nobody_listens_are_named_with_the_reason() -> None:
    first, second = free_ports(2)
    said, took_s = refusal(f"127.0.0.1:{first},127.0.0.1:{second}")
    assert "option kafka.bootstrap.servers" in said
    assert f"127.0.0.1:{first}: " in said
    assert f"127.0.0.1:{second}: " in said
    assert "refused" in said
    assert took_s < module.SILENCE_TIMEOUT_MS / 1000


def test_a_host_that_says_nothing_is_not_waited_for_without_end() -> None:
    with listener(hangs_up=False) as port:
        said, took_s = refusal(f"127.0.0.1:{port}", default_api_timeout_ms="3000")
    assert f"127.0.0.1:{port}: not connected within 2000 ms" in said
    assert took_s < 15


def test_a_listener_of_another_kind_is_suspected() -> None:
    with listener(hangs_up=True) as port:
        said, _ = refusal(f"127.0.0.1:{port}")
    assert "is this a PLAINTEXT listener of a broker?" in said


def test_a_name_that_nobody_knows_is_named() -> None:
    said, _ = refusal("no-such-host.invalid:9092")
    assert "no-such-host.invalid:9092: " in said
