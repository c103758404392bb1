"""Sessions of a clickstream, by a declared pipeline with state: a broker, clicks, `tidelog pipeline run`, and the sessions that came out.

Everything is started here and ended here. The pipeline itself is in clickstream_sessions/.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

PIPELINE = Path(__file__).with_name("clickstream_sessions")
TIDELOG = (sys.executable, "-m", "tidelog")
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
USERS = ("ada", "grace", "edsger")
SESSIONS_EACH = 3


def clicks() -> Iterator[dict[str, str]]:
    """Users come three times, two hours apart, and click once more each time. Long after them somebody else closes all sessions."""
    for visit in range(SESSIONS_EACH):
        for number, user in enumerate(USERS):
            for click in range(number + visit + 1):
                at = BEGIN + timedelta(hours=2 * visit, minutes=3 * click, seconds=number)
                yield {"user": user, "page": f"/{'home' if click == 0 else f'shelf-{click}'}", "at": at.isoformat()}
    yield {"user": "nobody", "page": "/home", "at": (BEGIN + timedelta(days=1)).isoformat()}


@contextmanager
def broker(data: Path) -> Iterator[str]:
    """A broker on a free port; its address."""
    process = subprocess.Popen([*TIDELOG, "up", "--port", "0", "--data", str(data)], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None  # noqa: S101
    ready = next(line for line in process.stdout if line.startswith("ready bootstrap="))
    try:
        yield ready.strip().partition("=")[2]
    finally:
        process.terminate()
        process.communicate()


def tidelog(*words: str, lines: str = "") -> str:
    """Run a command, and return what it printed."""
    done = subprocess.run([*TIDELOG, *words], input=lines, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return done.stdout


def main(home: Path) -> None:
    """All of it, in a directory that is not there afterwards."""
    with broker(home / "data") as bootstrap:
        for topic in ("clicks", "sessions"):
            tidelog("topics", "create", topic, "-b", bootstrap)
        tidelog("produce", "-t", "clicks", "-b", bootstrap, lines="".join(f"{json.dumps(each)}\n" for each in clicks()))
        pipeline = shutil.copytree(PIPELINE, home / "pipeline")
        print(tidelog("pipeline", "run", str(pipeline), "-b", bootstrap))
        written = tidelog("consume", "-t", "sessions", "-e", "-X", "isolation.level=read_committed", "-b", bootstrap)
    sessions = sorted(
        (json.loads(line) for line in written.splitlines()), key=lambda each: (each["began"], each["user"])
    )
    for each in sessions:
        print(f"{each['began'][:16]}  {each['user']:8}  {each['clicks']} clicks, from {each['entered_at']}")
    counted = sorted(each["clicks"] for each in sessions)
    wanted = sorted(number + visit + 1 for visit in range(SESSIONS_EACH) for number in range(len(USERS)))
    if counted != wanted:
        sys.exit(f"sessions of {counted} clicks came out, and not of {wanted}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tidelog-sessions-") as directory:
        main(Path(directory))
