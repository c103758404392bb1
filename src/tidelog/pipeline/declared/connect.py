"""A Spark Connect server and a session on it, in one process: Declarative Pipelines speak Connect, also to a Spark that is their own.

Spark's launcher would do the same on port 15002, one pipeline per machine. Here the server has a port that is free, listens on the loopback
address only, and takes nobody who does not know the token of this run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from tidelog.pipeline.declared.places import Places
from tidelog.pipeline.session import LOOPBACK, effective_settings, prepare_environment
from tidelog.runtime.real import RealRandomness

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  # the name of a variable
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
MARK: Final = "spark.tidelog.storage"
"""A setting that nobody reads: it stands on the command line of the JVM, and tells whose it is."""

_OF_JAVA: Final = "spark.driver.extraJavaOptions"
_SERVER: Final = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    "spark.connect.grpc.binding.port": "0",
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """The context that Spark runs in, and the session that definition files see."""

    context: SparkContext
    classic: SparkSession
    spark: SparkSession  # one of Connect, which has a type of its own and all the methods of this one

    def modifiable(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings that a session may have for itself; the others are those of the whole Spark, and were given at its start."""
        conf = self.classic.conf
        return {k: v for k, v in settings.items() if not k.startswith("spark.") or conf.isModifiable(k)}

    def jvm_ended(self) -> int | None:
        """The exit code of the JVM, negative for a signal; None while it lives."""
        gateway = self.context._gateway  # noqa: SLF001  # pyspark keeps the process nowhere else
        code: int | None = None if gateway is None else gateway.proc.poll()
        return code

    def stop(self) -> None:
        """End the session, then Spark."""
        self.spark.stop()
        self.context.stop()


def start(name: str, *, master: str, settings: Mapping[str, str]) -> Sessions:
    """Start Spark in this process. Raises NoJava, and what Spark raises."""
    prepare_environment(os.environ, master)
    os.environ[_TOKEN] = RealRandomness().uuid().hex
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession as Classic

    conf = SparkConf().setAppName(name).setMaster(master)
    conf.setAll(list(effective_settings(master, {**_SERVER, **settings}).items()))
    context = SparkContext(conf=conf)
    classic = Classic(context)
    jvm = context._jvm  # noqa: SLF001  # the only way to learn a port that was not chosen
    port = getattr(getattr(jvm, _SERVICE), "MODULE$").localPort()
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # makes pyspark.sql.functions those of Connect
    from pyspark.sql.connect.session import SparkSession as Remote

    # By this name and no other address Connect takes a token without asking for TLS.
    spark = cast("SparkSession", Remote.builder.remote(f"sc://localhost:{port}").getOrCreate())
    return Sessions(context=context, classic=classic, spark=spark)


def spark_settings(places: Places, given: Mapping[str, str], *, needs_catalog: bool) -> dict[str, str]:
    """Settings that keep all that a pipeline makes in its storage; those given win over them."""
    of_java = f"-Dderby.stream.error.file={places.ours / 'derby.log'} {given.get(_OF_JAVA, '')}".strip()
    settings = {
        MARK: str(places.storage),
        "spark.local.dir": str(places.scratch),
        "spark.sql.warehouse.dir": str(places.tables),
        "spark.sql.streaming.pollingDelay": "50ms",
    }
    if needs_catalog:
        settings |= {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={places.catalog};create=true",
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
        }
    return {**settings, **given, _OF_JAVA: of_java}
