"""Commands that are shown to be pasted: they name a program that is there."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME: Final = "tidelog"
_MODULE_FILE: Final = "__main__.py"


def program() -> str:
    """How this program is called in another terminal: by its name where the PATH finds it, else as it was called here."""
    called = Path(sys.argv[0])
    if called.name == _MODULE_FILE:
        return f"{shlex.quote(sys.executable)} -m {NAME}"
    if called.name != NAME or _is(NAME, called):
        return NAME  # it is found, or embedded in something that we know nothing of
    return shlex.quote(sys.argv[0])


def other_clients(bootstrap: str) -> Iterator[str]:
    """Lines for those clients of other people that are installed here."""
    if shutil.which("kcat"):
        yield f"kcat -b {bootstrap} -t hello -C -e"
    if importlib.util.find_spec("confluent_kafka"):
        python = "python" if _is("python", Path(sys.executable)) else shlex.quote(sys.executable)
        yield (
            f"{python} -c \"from confluent_kafka import Producer as P; p = P({{'bootstrap.servers': '{bootstrap}'}}); "
            "p.produce('hello', b'hi'); p.flush()\""
        )


def _is(word: str, file: Path) -> bool:
    """Whether the shell finds this file by a word; by its own name, since a virtual environment's Python is a link to another's."""
    found = shutil.which(word)
    return found is not None and os.path.abspath(found) == os.path.abspath(file)
