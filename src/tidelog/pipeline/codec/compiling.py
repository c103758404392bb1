"""How kernels are compiled: once per machine where a directory can be written to, once per process where none can."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., object])

_PRIVATE_MODE: Final = 0o700
# Names of numba that it does not declare: where a dispatcher keeps its cache, which enable_caching() sets, and the setting of a directory.
_CACHE: Final = "_cache"
_CACHE_DIR: Final = "CACHE_DIR"


def compiled(function: Function) -> Function:
    """A kernel in machine code, made at its first call. It lets go of the interpreter's lock: others fetch while it runs."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    cache = _cache_of(function)
    if cache is not None:
        setattr(dispatcher, _CACHE, cache)
    return cast(Function, dispatcher)


class _ForgivingCache(FunctionCache):
    """Keeps machine code on disk. A full disk, or a file that a crash left empty, is no reason not to compile and run."""

    def load_overload(self, sig: object, target_context: object) -> object:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]  # numba
        except EOFError:
            with contextlib.suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]  # numba
        except OSError:
            pass  # Nor can it be saved, then.
        return None

    def save_overload(self, sig: object, data: object) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]  # numba
        except OSError:
            self.disable()  # type: ignore[no-untyped-call]  # numba


def _cache_of(function: Callable[..., object]) -> FunctionCache | None:
    """Where numba can keep a function: beside its source, in the user's cache, in our own directory, or nowhere."""
    try:
        return _ForgivingCache(function)  # type: ignore[no-untyped-call]  # numba
    except RuntimeError:
        # Neither the package nor the user's cache can be written to, as in many containers.
        directory = private_directory()
    if directory is None or getattr(numba.config, _CACHE_DIR):
        return None
    setattr(numba.config, _CACHE_DIR, str(directory))
    try:
        return _ForgivingCache(function)  # type: ignore[no-untyped-call]  # numba
    except RuntimeError:
        return None  # The source is no file, as within a zip archive.


def private_directory() -> Path | None:
    """A directory for compiled code that nobody else can write to, or None: what is loaded from there is run."""
    directory = Path(tempfile.gettempdir()) / f"tidelog-compiled-{os.getuid()}"
    try:
        directory.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    is_private = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return directory if is_ours and is_private and os.access(directory, os.W_OK) else None
