"""Whether what a command wants of Spark is there, asked before anything is imported that needs it."""

from __future__ import annotations

import os

from tidelog.cli.failure import CommandFailed
from tidelog.pipeline.java import NoJava, find_java
from tidelog.pipeline.session import SparkMissing, check_installed


def check_spark() -> None:
    """Say what is missing before anything is started. Raises CommandFailed."""
    try:
        check_installed()
        find_java(os.environ)
    except (SparkMissing, NoJava) as failure:
        raise CommandFailed(str(failure)) from None
