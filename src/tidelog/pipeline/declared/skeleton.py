"""The files of a new pipeline: small, whole, and runnable against a broker on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tidelog.pipeline.declared.spec import FILE_NAMES

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")

_SPEC: Final = """\
# A pipeline of Spark Declarative Pipelines. Run it: tidelog pipeline run
name: {name}
# Checkpoints, tables, the state of runs and Spark's log. Whoever deletes it begins anew.
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "2"
"""

_TRANSFORMATIONS: Final = '''\
"""Orders come in as JSON; good ones and bad ones go to a topic each, exactly once."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

spark: SparkSession  # whoever runs the pipeline puts it here

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")

dp.create_sink("good", "tidelog", {{"kafka.bootstrap.servers": BOOTSTRAP, "topic": "{name}-good"}})
dp.create_sink("bad", "tidelog", {{"kafka.bootstrap.servers": BOOTSTRAP, "topic": "{name}-bad"}})


@dp.temporary_view
def orders() -> DataFrame:
    """The topic, with what could be read of each value; `parsed` is null where that is nothing."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "{name}-orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    parsed = from_json(col("value").cast("string"), "product STRING, quantity INT").alias("parsed")
    return records.select("key", "value", "timestamp", parsed)


@dp.append_flow(target="good")
def good_orders() -> DataFrame:
    return spark.readStream.table("orders").where("parsed.quantity > 0").select("key", "value")


@dp.append_flow(target="bad")
def bad_orders() -> DataFrame:
    return spark.readStream.table("orders").where("NOT coalesce(parsed.quantity > 0, false)").select("key", "value")
'''

_README: Final = """\
# {name}

A declared pipeline: `transformations/orders.py` reads the topic `{name}-orders`, and writes good orders to `{name}-good` and the others
to `{name}-bad`, exactly once.

```console
$ tidelog up                                     # in another terminal, if there is no broker yet
$ for topic in orders good bad; do tidelog topics create {name}-$topic --partitions 2; done
$ echo '{{"product": "tea", "quantity": 2}}' | tidelog produce -t {name}-orders
$ tidelog pipeline run                           # reads what is there, and ends
$ tidelog consume -t {name}-good -e -X isolation.level=read_committed
$ tidelog pipeline run --continuous              # runs until Ctrl-C, or `tidelog pipeline stop {name}`
$ tidelog pipeline status {name}
```

Brokers elsewhere: `tidelog pipeline run -b HOST:PORT`. A table beside the topics is a file `transformations/archive.sql`:

```sql
CREATE STREAMING TABLE archive AS SELECT CAST(value AS STRING) AS value, timestamp FROM STREAM orders
```
"""


class NotMade(Exception):
    """A pipeline was not made; the message says why."""


def make_pipeline(directory: Path) -> list[Path]:
    """Make a directory with a pipeline of the same name; the files. Raises NotMade, and then nothing has changed."""
    name = directory.name
    if not _NAME.fullmatch(name):
        raise NotMade(f"{name!r} is no name for a pipeline: letters, digits, - and _, a letter first, at most 100")
    if directory.exists():
        raise NotMade(f"{directory} is there already; nothing was changed")
    texts = {
        FILE_NAMES[0]: _SPEC.format(name=name, storage=(directory.absolute() / "storage").as_uri()),
        "transformations/orders.py": _TRANSFORMATIONS.format(name=name),
        "README.md": _README.format(name=name),
    }
    try:
        directory.mkdir(parents=True)
        (directory / "transformations").mkdir()
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotMade(f"{directory} cannot be made: {error.strerror or error}") from None
    return [directory / file for file in texts]
