"""A program for the tests: a supervisor whose children are as short as can be. One word per child says how it behaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from tidelog.cli.failure import CommandFailed
from tidelog.cli.forked import STOP_WITH_EVERYBODY, Forked, fork
from tidelog.cli.supervisor import READY, Supervisor
from tidelog.cli.voice import ClusterVoice
from tidelog.runtime.real import RealClock


def main() -> int:
    """Supervise the children that the arguments describe."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    behaviours = [BEHAVIOURS[word] for word in words]

    def launch(broker_id: int, address: str | None) -> Forked:
        def run() -> int:
            return behaviours[broker_id - 1](address or f"h:{broker_id}")

        return fork(run, name=f"child-{broker_id}")

    supervisor = Supervisor(
        range(1, len(words) + 1),
        launch,
        ClusterVoice(sys.stdout, sys.stderr, ""),
        RealClock(),
        is_together=lambda _: "--never-together" not in sys.argv,
        is_restarting="--no-restart" not in sys.argv,
    )
    return supervisor.run()


def serve(address: str) -> int:
    """Serve until told to stop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {STOP_WITH_EVERYBODY})
    _say_ready(address)
    signal.sigwait({STOP_WITH_EVERYBODY})
    return 0


def stay(address: str) -> int:
    """Do not listen."""
    signal.signal(STOP_WITH_EVERYBODY, signal.SIG_IGN)
    _say_ready(address)
    while True:
        signal.pause()


def _say_ready(address: str) -> None:
    sys.stderr.write(f"pid {os.getpid()} of {address}\n")
    sys.stdout.write(f"{READY}{address}\n")
    sys.stdout.flush()


def refuse(_address: str) -> int:
    """Fail as a command does."""
    raise CommandFailed("the port is taken", exit_code=2)


def break_down(_address: str) -> int:
    """Fail as a bug does."""
    raise ZeroDivisionError("a bug")


BEHAVIOURS: dict[str, Callable[[str], int]] = {
    "serve": serve,
    "stay": stay,
    "refuse": refuse,
    "break": break_down,
}

if __name__ == "__main__":
    sys.exit(main())
