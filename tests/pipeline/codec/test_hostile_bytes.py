"""Whatever bytes come, the decoder reads what a slow and obvious reader would, or complains; it never reads outside of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import FRESH_SEED_VARIABLE
from tests.pipeline.codec.hostile import flipped, judged, odd_claims, odd_numbers_everywhere, odd_records, sound_fetch
from tidelog.records import Codec

ROOT = Path(__file__).parents[3]


def test_the_sound_bytes_are_read() -> None:
    for codec in Codec:
        judged(sound_fetch(codec))


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_is_read_up_to_the_torn_batch(codec: Codec) -> None:
    fetched = sound_fetch(codec)
    for size in range(1, len(fetched)):
        judged(fetched[:size])


@pytest.mark.slow
@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_byte_under_a_sound_checksum_is_understood_or_refused(codec: Codec) -> None:
    for fetched in flipped(sound_fetch(codec), (0x01, 0x80)):
        judged(fetched)


def test_every_lie_in_a_header_is_refused_or_harmless() -> None:
    for codec in Codec:
        for fetched in odd_claims(sound_fetch(codec)):
            judged(fetched)


@pytest.mark.slow
def test_absurd_numbers_anywhere_in_a_record_are_refused_or_harmless() -> None:
    for fetched in odd_numbers_everywhere(sound_fetch()):
        judged(fetched)


@pytest.mark.slow
def test_absurd_numbers_in_a_record_that_is_as_long_as_it_says_are_refused_or_harmless() -> None:
    for fetched in odd_records():
        judged(fetched)


@given(st.binary(min_size=1, max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    judged(noise)


def attack(*, seed: int, rounds: int, cache: Path, timeout_s: float) -> None:
    """Attack kernels that notice every access outside of their arrays, in another process."""
    command = [sys.executable, "-m", "tests.pipeline.codec.hostile", str(seed), str(rounds)]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}\n{done.stderr[-5000:]}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_known_attack_makes_a_kernel_leave_its_arrays(tmp_path: Path) -> None:
    attack(seed=1, rounds=500, cache=tmp_path, timeout_s=280)


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("attempt", range(2))
def test_no_attack_at_all_makes_a_kernel_leave_its_arrays(attempt: int, tmp_path: Path) -> None:
    seed = int(os.environ[FRESH_SEED_VARIABLE]) + attempt
    rounds = int(os.environ.get("TIDELOG_FUZZ_ROUNDS", "50000"))
    attack(seed=seed, rounds=rounds, cache=tmp_path, timeout_s=3500)
