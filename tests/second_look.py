"""A second look at the tests that failed: each once more, alone, in a process of its own. Run by `.ci/run`, never by `make test`.

A test that real processes or sockets may have failed for once, and that passes now, is printed as FLAKY and stops nobody: it is a bug
to be found, in the product or in the test. Whether a test has to do with the real world is not declared but seen: a test that starts
no process and no connection has no excuse, and stays red. So do more than three.
"""

from __future__ import annotations

import json
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from typing import Final

import pytest

EXCUSED_MAX: Final = 3
REPORTS: Final = Path(".cache/reports")
#: What the cache plugin leaves behind: the ids of all tests (and files) that failed.
LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
#: What only tests of real parts do; a loop of asyncio alone does none of it.
REAL: Final = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.bind", "socket.connect"})


class Seen(IntEnum):
    """What became of one test the second time; also the exit code of the process that ran it."""

    PASSED = 0
    FAILED = 1
    PASSED_WITHOUT_EXCUSE = 10


def look_again(test: str) -> Seen:
    """Run one test here and now, and see whether it has to do with the real world."""
    touched: list[str] = []

    def hook(event: str, _: object) -> None:
        if event in REAL:
            touched.append(event)

    sys.addaudithook(hook)
    code = pytest.main(["-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-profile=fixed", test])
    if code != pytest.ExitCode.OK:
        return Seen.FAILED
    return Seen.PASSED if touched else Seen.PASSED_WITHOUT_EXCUSE


def verdicts(failed: list[str]) -> list[tuple[str, Seen]]:
    """Each test once more, in order, each in its own process: what one leaves behind is no excuse of the next."""
    return [(test, Seen(_run(test))) for test in failed]


def _run(test: str) -> int:
    code = subprocess.run([sys.executable, "-m", "tests.second_look", test], check=False).returncode
    return code if code in set(Seen) else Seen.FAILED


def main() -> int:
    """0 if everything that failed is excused."""
    failed = list(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not failed:
        print("no test is known to have failed, so there is nothing to look at again")  # noqa: T201
        return 1
    if len(failed) > EXCUSED_MAX:
        print(f"{len(failed)} tests failed; more than {EXCUSED_MAX} are not looked at again")  # noqa: T201
        return 1
    seen = verdicts(failed)
    for test, verdict in seen:
        match verdict:
            case Seen.PASSED:
                print(f"FLAKY {test} (its first failure is in {REPORTS / 'test.xml'})")  # noqa: T201
            case Seen.FAILED:
                print(f"FAILED {test} (twice)")  # noqa: T201
            case Seen.PASSED_WITHOUT_EXCUSE:
                print(f"FAILED {test} (passes now, but nothing real is part of it: it must never fail)")  # noqa: T201
    return int(any(verdict is not Seen.PASSED for _, verdict in seen))


if __name__ == "__main__":
    sys.exit(look_again(sys.argv[1]) if sys.argv[1:] else main())
