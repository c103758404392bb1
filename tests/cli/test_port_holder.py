"""Who holds a port: ourselves, nobody, or somebody we may not look at."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tidelog.cli.port_holder import port_holder


def test_a_listening_process_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        holder = port_holder(server.getsockname()[1])
    assert holder is not None
    assert holder.pid == os.getpid()
    assert "pytest" in holder.command or "python" in holder.command


def test_a_connection_is_not_a_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert port_holder(client.getsockname()[1]) is None


def test_a_machine_without_proc_names_nobody(tmp_path: Path) -> None:
    assert port_holder(1, proc=tmp_path / "none") is None


def test_a_listener_on_ipv6_counts_too(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    local = "00000000000000000000000001000000:2384"
    (tmp_path / "net" / "tcp6").write_text(f"heading\n 0: {local} 0:0 0A 0:0 0:0 0 0 0 4711 1\n")
    (tmp_path / "33" / "fd").mkdir(parents=True)
    (tmp_path / "33" / "fd" / "5").symlink_to("socket:[4711]")
    (tmp_path / "33" / "cmdline").write_bytes(b"java\0kafka.Kafka\0")
    assert str(port_holder(9092, proc=tmp_path)) == "process 33: java kafka.Kafka"
