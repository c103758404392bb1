"""Whether brokers know each other, asked of real ones."""

from __future__ import annotations

import socket

import pytest

from tidelog.cli.together import are_together


@pytest.mark.slow
def test_one_broker_knows_itself_and_nobody_else(bootstrap: str) -> None:
    assert are_together([bootstrap])
    assert not are_together([bootstrap, bootstrap])


def test_nobody_at_an_address_is_not_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert not are_together([address])
