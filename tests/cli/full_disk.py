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


def refuses_records(up: TidelogProcess | TidelogUp, size: int) -> bool:
    """Of several brokers one may find room for a last record, which is not acknowledged then, since the others have none."""
    done = tidelog(up, "produce", "-t", "orders", *PATIENCE, stdin="x" * size + "\n")
    return done.returncode == 1 and ("KAFKA_STORAGE_ERROR" in done.stderr or isinstance(up, TidelogUp))


def kept(up: TidelogProcess | TidelogUp) -> int:
    return ok(up, "consume", "-t", "orders", "-e").splitlines().count("kept")


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
        assert refuses_records(up, 100_000)
        assert "is full" in tidelog(up, "status").stdout
        assert kept(up) == 10
        # What makes room has to be written itself. Forgetting records is answered when all live replicas have followed, as in Kafka; one that
        # lacks the room for a last record of its leader has not.
        if broker_count == 1:
            ok(up, "topics", "delete-records", "orders", "--before", "5")
        ok(up, "configs", "alter", "topic", "orders", "--set", "retention.bytes=1")
        ok(up, "topics", "delete", "other")
        # And what was kept for that is not there for records.
        assert refuses_records(up, 1)
        stop(up)
    fill(ballast)  # with the little that the stop gave back
    with start() as up:
        if broker_count == 1:  # of several, a new leader tells where its log ends when the others have that last record
            assert kept(up) == 5
        assert refuses_records(up, 1)
        ballast.unlink()
        ok(up, "produce", "-t", "orders", stdin="room again\n")
        assert kept(up) == (5 if broker_count == 1 else 10)
        assert "in sync" in ok(up, "status")
        stop(up)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
