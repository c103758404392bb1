"""A broker's start imports nothing that only tests want."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from tidelog.cli.codecs import prepare_first_codec
prepare_first_codec()
print("kio" in sys.modules, "hypothesis" in sys.modules)
import hypothesis.strategies
"""


@pytest.mark.slow
def test_kio_is_there_and_hypothesis_is_not_but_could_be() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
