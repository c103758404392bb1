"""Commands that talk to a cluster: the real runtime, the loop, and the client's errors in the user's words."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import Final, TypeAlias

from tidelog.cli.arguments import client_properties
from tidelog.cli.failure import CommandFailed, WrongUsage
from tidelog.cli.loops import run
from tidelog.client import Cluster, ConsumerConfig
from tidelog.client.errors import ClientError
from tidelog.config import ConfigError
from tidelog.model import ApiError
from tidelog.runtime import Runtime
from tidelog.runtime.real import real_runtime

Work: TypeAlias = Callable[[argparse.Namespace, Cluster, ConsumerConfig, Runtime], Coroutine[object, object, int]]

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


def run_connected(options: argparse.Namespace) -> int:
    """Run `options.work` on the cluster the options name, and return its exit code. Raises CommandFailed."""

    async def connected(runtime: Runtime) -> int:
        more = {"default.api.timeout.ms": PATIENCE["default.api.timeout.ms"], "client.id": options.client_id}
        properties = client_properties(options.bootstrap_server, options.properties, more.items())
        config = ConsumerConfig.from_properties(properties)
        async with Cluster(config, runtime) as cluster:
            work: Work = options.work
            return await work(options, cluster, config, runtime)

    return run_client(connected)
