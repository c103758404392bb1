"""Commands that talk to a cluster: the real runtime, the loop, and the client's errors in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Final

from tidelog.cli.failure import CommandFailed, WrongUsage
from tidelog.cli.loops import run
from tidelog.client.errors import ClientError
from tidelog.config import ConfigError
from tidelog.model import ApiError
from tidelog.runtime import Runtime
from tidelog.runtime.real import real_runtime

PATIENCE: Final = {"max.block.ms": "10000", "default.api.timeout.ms": "10000"}
"""Settings for somebody who waits at a terminal; the client's own defaults are for services."""


def run_client(work: Callable[[Runtime], Coroutine[object, object, int]]) -> int:
    """Run `work` in the real world and return its exit code. Raises CommandFailed."""
    runtime = real_runtime()
    try:
        return run(work(runtime))
    except ConfigError as error:
        raise WrongUsage(str(error)) from None
    except (ClientError, ApiError) as error:
        raise CommandFailed(str(error)) from error
    finally:
        runtime.disk.close()
