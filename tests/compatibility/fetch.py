"""Brings what `make compat` and `make proof` need before the tests start: Kafka's jars, old and new, Spark's connector, KafkaJS and kcat."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

from tests.compatibility.apache_kafka import CLIENTS_POM, ToolMissing, jars, old_client_jars, version
from tests.compatibility.drivers import kafkajs
from tests.compatibility.spark_connector import CONNECTOR_POM, connector_jars

_INSTALL_TIMEOUT_S: Final = 300


def kcat() -> str:
    """The path of kcat, installed from Debian when it is missing and we may."""
    if found := shutil.which("kcat") or shutil.which("kafkacat"):
        return found
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ToolMissing("`kcat` is not installed; on Debian: apt-get install kcat")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", "kcat"],
    ):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, env=environment, check=False
        )
        if done.returncode != 0:
            raise ToolMissing(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    found = shutil.which("kcat")
    if found is None:
        raise ToolMissing("apt-get installed kcat, but it is not on the PATH")
    return found


def main() -> int:
    """Fetch everything; say what came and what did not."""
    try:
        sys.stdout.write(f"Apache Kafka {version()}: {jars()}\n")
        sys.stdout.write(f"Java client {version(CLIENTS_POM)}: {old_client_jars()}\n")
        sys.stdout.write(f"Spark's Kafka connector {version(CONNECTOR_POM)}: {connector_jars()}\n")
        sys.stdout.write(f"KafkaJS: {kafkajs()}\n")
        sys.stdout.write(f"kcat: {kcat()}\n")
    except ToolMissing as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
