"""`tidelog up --brokers N`: N brokers as children of one process that looks after them."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from tidelog.cli.cluster_plan import at_address, cluster_plans, lock_files
from tidelog.cli.failure import CommandFailed
from tidelog.cli.forked import Forked, fork
from tidelog.cli.hints import program
from tidelog.cli.lock_holder import lock_holder
from tidelog.cli.plan import Plan
from tidelog.cli.serving import Ready, check_config, serve
from tidelog.cli.supervisor import METRICS, READY, Supervisor
from tidelog.cli.together import are_together
from tidelog.cli.up import data_of, is_used
from tidelog.cli.voice import ClusterVoice
from tidelog.runtime.real import RealClock
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare


def serve_cluster(options: argparse.Namespace) -> int:
    """Run the brokers until a signal, and return the exit code. Raises CommandFailed."""
    plans = cluster_plans(options)
    for plan in plans:
        check_config(plan)
        _check_unused(plan)
    voice = ClusterVoice(sys.stdout, sys.stderr, welcome(options, plans))
    prepare_to_fork()

    def launch(broker_id: int, address: str | None) -> Forked:
        plan = at_address(plans[broker_id - 1], address)
        return fork(lambda: serve(plan, announce=_announce, is_alone=False), name=f"tidelog-{broker_id}")

    broker_ids = range(1, len(plans) + 1)
    return Supervisor(
        broker_ids, launch, voice, RealClock(), is_together=are_together, is_restarting=not options.no_restart
    ).run()


def _check_unused(plan: Plan) -> None:
    """Say in one sentence what every broker would say for itself. They hold the real lock."""
    for path in lock_files(plan):
        holder = lock_holder(path)
        if holder is not None:
            raise CommandFailed(
                f"{path.parent} is in use\n  it is held by {holder}\n  --data DIR chooses another place"
            )


def prepare_to_fork() -> None:
    """Import and make once what every broker needs, and let the children share it: a collection would write to all of it."""
    from tidelog.cli.loops import loop_factory

    loop_factory()
    prepare([ApiKey.API_VERSIONS])
    gc.collect()
    gc.freeze()


def _announce(ready: Ready, _plan: Plan) -> None:
    """A child tells its parent."""
    sys.stdout.write(f"{READY}{ready.bootstrap}{METRICS}{','.join(ready.metrics)}\n")
    sys.stdout.flush()


def welcome(options: argparse.Namespace, plans: Sequence[Plan]) -> str:
    """What a person at a terminal would like to know next; `{first}` stands for a broker's address, `{metrics}` for theirs."""
    data = str(data_of(options)).replace("{", "{{").replace("}", "}}")
    kept = "removed at the end" if options.ephemeral else "used again" if any(map(is_used, plans)) else "new"
    name = program().replace("{", "{{").replace("}", "}}")
    log = "stderr" if plans[0].log_file is None else f"{data}/logs/broker-N.log"
    properties = plans[0].properties
    replicas, in_sync = properties["default.replication.factor"], properties.get("min.insync.replicas", "1")
    return f"""
data    {data} ({kept})
logs    {log}
topics  {replicas} replicas, acks=all needs {in_sync} of them, unless told otherwise
metrics {{metrics}}

try, in another terminal:
  echo 'hello, world' | {name} produce -b {{first}} -t hello
  {name} replicas -b {{first}} --watch
  {name} brokers kill 2 -b {{first}}      and see who leads then; it is started again{" by nobody" if options.no_restart else " after 2 s"}

Ctrl-C stops the brokers; {"nothing is left behind" if options.ephemeral else "the data stays"}.
"""
