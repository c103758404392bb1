from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire.fuzzer import NATIVE_READER_KILLER, attempt
from tests.wire.oracle import Case
from tidelog.wire.api import ApiKey

ROOT = Path(__file__).parents[2]


def fuzz(*, seed: int, rounds: int, timeout_s: float) -> None:
    """The death of the process fails the test as any finding does, and its output says what to repeat."""
    command = [sys.executable, "-m", "tests.wire.fuzzer", str(seed), str(rounds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"


def test_the_frame_that_kills_the_native_reader_is_malformed() -> None:
    assert attempt(Case(ApiKey.METADATA, 12, is_request=True), NATIVE_READER_KILLER) is None


@pytest.mark.slow
def test_damaged_frames_are_malformed_or_messages() -> None:
    fuzz(seed=1, rounds=60, timeout_s=240)


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_many_damaged_frames_are_malformed_or_messages(seed: int) -> None:
    rounds = int(os.environ.get("TIDELOG_FUZZ_ROUNDS", "1250"))
    base_seed = int(os.environ.get("TIDELOG_FUZZ_SEED", "1000"))
    fuzz(seed=base_seed + seed, rounds=rounds, timeout_s=3500)
