"""Commands of the pipeline where only a broker is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_CODE = """
import sys
for name in ("numpy", "pandas", "pyarrow", "pyspark", "py4j"):
    sys.modules[name] = None  # as if it were not installed
from tidelog.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", ["audit --data .", "demo shop", "demo exactly-once", "pipeline run"])
def test_what_is_missing_is_a_sentence(words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CODE, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "tidelog: Spark is not installed here (pyspark, pyarrow, numpy, pandas missing): pip install 'tidelog[spark]'\n"
    )
