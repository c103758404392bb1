"""The story of a disk that is full to the last byte, told in a small file system of its own: `python -m tests.cli.full_disk PLACE BROKERS`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.compatibility.processes import TidelogProcess, TidelogUp
from tidelog.testing.ports import free_ports

PATIENCE = ("-X", "delivery.timeout.ms=3000", "-X", "request.timeout.ms=2000")


def tidelog(up: TidelogProcess | TidelogUp, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", *words, "-b", up.bootstrap]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)


def ok(up: TidelogProcess | TidelogUp, *words: str, stdin: str = "") -> str:
    done = tidelog(up, *words, stdin=stdin)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def fill(ballast: Path) -> None:
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def main(place: Path, broker_count: int) -> None:
    ballast = place / "ballast"
    port = free_ports(broker_count, in_a_row=True)[0]

    def start() -> TidelogProcess | TidelogUp:
        if broker_count == 1:
            return TidelogProcess(place / "data", port=port)
        return TidelogUp(place / "data", broker_count=broker_count, port=port)

    def stop(up: TidelogProcess | TidelogUp) -> None:
        assert up.stop() == 0, up.output
        assert "no clean" not in up.output, up.output
        assert "Traceback" not in up.output, up.output

    with start() as up:
        ok(up, "topics", "create", "other")
        ok(up, "produce", "-t", "orders", stdin="kept\n" * 10)
        fill(ballast)
        refused = tidelog(up, "produce", "-t", "orders", *PATIENCE, stdin="x" * 100_000 + "\n")
        assert "KAFKA_STORAGE_ERROR" in refused.stderr, refused.stderr
        assert "is full" in tidelog(up, "status").stdout
        assert ok(up, "consume", "-t", "orders", "-e") == "kept\n" * 10
        # What makes room has to be written itself.
        ok(up, "topics", "delete-records", "orders", "--before", "5")
        ok(up, "configs", "alter", "topic", "orders", "--set", "retention.bytes=1")
        ok(up, "topics", "delete", "other")
        # And what was kept for that is not there for records.
        assert "KAFKA_STORAGE_ERROR" in tidelog(up, "produce", "-t", "orders", *PATIENCE, stdin="x\n").stderr
        stop(up)
    fill(ballast)  # with the little that the stop gave back
    with start() as up:
        assert ok(up, "consume", "-t", "orders", "-e") == "kept\n" * 5
        assert "KAFKA_STORAGE_ERROR" in tidelog(up, "produce", "-t", "orders", *PATIENCE, stdin="x\n").stderr
        ballast.unlink()
        ok(up, "produce", "-t", "orders", stdin="room again\n")
        assert "in sync" in ok(up, "status")
        stop(up)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
