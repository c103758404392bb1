"""What holds for every test: what Hypothesis tries is fixed unless asked otherwise, a leak is charged to the file that leaked, and with
CI=true a skip nobody has defended is a failure.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.workers import TogetherScheduling, long_ones_first

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")

FRESH_SEED_VARIABLE = (
    "TIDELOG_FRESH_SEED"  # the first seed of what is drawn, another one each time if ORDER=random; inherited by workers
)
ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


def allowed_skips(text: str) -> dict[str, str]:
    """Test ids (or beginnings of them) that may skip, with the reason; a line without a reason is an error."""
    allowed: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        test_id, separator, reason = line.partition(" : ")
        if not separator or not reason.strip():
            raise ValueError(f"{ALLOWED_SKIPS.name}: {line!r} gives no reason after ' : '")
        allowed[test_id.strip()] = reason.strip()
    return allowed


def is_defended(test_id: str, allowed: dict[str, str]) -> bool:
    """Whether the list names this test, one of its parents, or the test without its parameters."""
    return any(test_id == name or test_id.startswith(tuple(name + mark for mark in "[/:")) for name in allowed)


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background jobs ignore Ctrl-C, and so would every process that a test starts and then interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    is_random = config.getoption("--hypothesis-profile") == "random"
    os.environ.setdefault(FRESH_SEED_VARIABLE, str(int.from_bytes(os.urandom(4), "big") if is_random else 1))
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(SkipsAreFailures(allowed_skips(ALLOWED_SKIPS.read_text())), "skips-are-failures")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # that is, when others have shuffled them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    yield
    if "--dist" in getattr(config, "workerinput", {}).get("mainargv", ()):
        long_ones_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TogetherScheduling | None:
    return TogetherScheduling(config, log) if config.getvalue("dist") in {"loadfile", "loadgroup"} else None


def pytest_report_header() -> str:
    return f"fresh seeds: from {os.environ[FRESH_SEED_VARIABLE]} on"


def pytest_collection_finish() -> None:
    """Half a million objects of the tests themselves live until the end: to look through them after every file cost a quarter of all time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _leaks_stay_at_home() -> Generator[None]:
    """Whatever a file's tests left open is found before the next file begins: a warning of the collector is charged to its own file."""
    yield
    gc.collect()


class SkipsAreFailures:
    """Turns each undefended skip into a failure that says what to do about it."""

    def __init__(self, allowed: dict[str, str]) -> None:
        self._allowed = allowed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped and not hasattr(report, "wasxfail") and not is_defended(report.nodeid, self._allowed):
            report.outcome = "failed"
            report.longrepr = self._verdict(report.longrepr)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.skipped and not is_defended(report.nodeid, self._allowed):
            report.outcome = "failed"
            report.longrepr = self._verdict(report.longrepr)
        return report

    @staticmethod
    def _verdict(longrepr: object) -> str:
        reason = longrepr[2] if isinstance(longrepr, tuple) and len(longrepr) == 3 else longrepr
        return f"skipped although CI=true: {reason}\nMake it run, or list it with its reason in tests/{ALLOWED_SKIPS.name}."
