"""One run at a time: an flock on a file in the storage, dropped by the kernel with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self


class PipelineHeld(Exception):
    """Another run holds the pipeline."""


class PipelineLock:
    """Held from `acquire` to `release`, or to the end of the last process that has its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Take the lock, at once. Raises PipelineHeld, and OSError where the file cannot be made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise PipelineHeld(str(path)) from None
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let others have it."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()
