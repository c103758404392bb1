"""Where compiled code is kept, who may put something there, and what happens where it cannot be kept."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tidelog.pipeline.codec.compiling import private_directory

pytestmark = pytest.mark.timeout(200)  # every run of another interpreter loads the compiler

KERNEL = """
from tidelog.pipeline.codec.compiling import compiled

@compiled
def double(number):
    return 2 * number
"""


def run(code: str, directory: Path, **environment: str) -> str:
    """What a fresh interpreter says that finds its modules in this directory, too."""
    # The directory comes first: numba shall not take a cache that this test does not know of.
    cleared = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**cleared, "PYTHONPATH": str(directory), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def files_below(directory: Path) -> set[str]:
    return {path.suffix for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def kernel_home(tmp_path: Path) -> Path:
    """A directory with a kernel, in which nothing else can be written, not even by root."""
    home = tmp_path / "package"
    home.mkdir()
    (home / "kernel.py").write_text(KERNEL)
    (home / "__pycache__").write_text("no directory")
    return home


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """An environment without a home, and with a directory for temporary files."""
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "tmp").mkdir()
    file = str(tmp_path / "file")
    return {"HOME": file, "XDG_CACHE_HOME": file, "TMPDIR": str(tmp_path / "tmp")}


@pytest.mark.slow
def test_where_nothing_else_can_be_written_code_is_kept_in_a_private_directory(
    kernel_home: Path, nowhere: dict[str, str]
) -> None:
    say = "import kernel; print(kernel.double(21), sum(kernel.double.stats.cache_hits.values()))"

    first, second = (run(say, kernel_home, **nowhere) for _ in range(2))

    assert (first, second) == ("42 0", "42 1")
    assert ".nbc" in files_below(Path(nowhere["TMPDIR"]) / f"tidelog-compiled-{os.getuid()}")


@pytest.mark.slow
def test_a_directory_that_others_can_write_to_is_not_used(kernel_home: Path, nowhere: dict[str, str]) -> None:
    open_to_all = Path(nowhere["TMPDIR"]) / f"tidelog-compiled-{os.getuid()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)

    assert run("import kernel; print(kernel.double(21))", kernel_home, **nowhere) == "42"
    assert files_below(open_to_all) == set()


@pytest.mark.slow
def test_code_that_cannot_be_kept_runs_all_the_same(tmp_path: Path) -> None:
    home, cache = tmp_path / "package", tmp_path / "cache"
    home.mkdir()
    (home / "kernel.py").write_text(KERNEL)
    say = f"""
import kernel, shutil
from pathlib import Path
shutil.rmtree({str(cache)!r})
Path({str(cache)!r}).write_text("as if the disk were full")
print(kernel.double(21), kernel.double(4))
"""

    assert run(say, home, NUMBA_CACHE_DIR=str(cache)) == "42 8"


@pytest.mark.slow
def test_a_kept_file_that_a_crash_left_empty_is_made_anew(tmp_path: Path) -> None:
    home, cache = tmp_path / "package", tmp_path / "cache"
    home.mkdir()
    (home / "kernel.py").write_text(KERNEL)
    say = "import kernel; print(kernel.double(21), sum(kernel.double.stats.cache_hits.values()))"
    run(say, home, NUMBA_CACHE_DIR=str(cache))
    [index] = cache.rglob("*.nbi")
    index.write_bytes(b"")

    assert [run(say, home, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)] == ["42 0", "42 1"]


@pytest.mark.parametrize("kind", ["file", "link", "group"])
def test_only_a_directory_of_our_own_is_private(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / f"tidelog-compiled-{os.getuid()}"
    match kind:
        case "file":
            path.write_text("")
        case "link":
            (tmp_path / "elsewhere").mkdir()
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            path.mkdir()
            path.chmod(0o770)

    assert private_directory() is None


def test_the_private_directory_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    directory = private_directory()

    assert directory is not None
    assert directory == private_directory()
    assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_whoever_only_plans_waits_neither_for_the_compiler_nor_for_arrow(tmp_path: Path) -> None:
    loaded = "import sys; print([name for name in ('numba', 'numpy', 'pyarrow', 'pyspark') if name in sys.modules])"

    assert run(f"import tidelog.pipeline.codec.columns; {loaded}", tmp_path) == "[]"
    assert run(f"import tidelog.pipeline.codec.decoding; {loaded}", tmp_path) == "['numpy', 'pyarrow']"
    assert run(f"import tidelog.pipeline.codec.encoding; {loaded}", tmp_path) == "['numpy', 'pyarrow']"
