"""Apache Kafka's administration tools, in Java, against Tidelog: records, log directories, producers, the cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import KafkaProcess, run_tool
from tests.compatibility.message import messages
from tests.compatibility.processes import TidelogProcess
from tests.compatibility.test_python_clients import confluent_produce

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.usefixtures("kafka_jars")]


def tool(broker: TidelogProcess | KafkaProcess, main_class: str, *words: str) -> str:
    return run_tool(main_class, *words, "--bootstrap-server", broker.bootstrap)


def test_kafka_delete_records_moves_the_start(tidelog: TidelogProcess, topic: str, tmp_path: Path) -> None:
    confluent_produce(tidelog.bootstrap, topic, "zstd", messages())
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 20}], "version": 1}))

    said = tool(tidelog, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(wanted))

    assert f"partition: {topic}-0\tlow_watermark: 20" in said
    found = tool(tidelog, "org.apache.kafka.tools.GetOffsetShell", "--topic", topic, "--time", "earliest")
    assert found.strip() == f"{topic}:0:20"


def test_kafka_log_dirs_sees_where_and_how_large(tidelog: TidelogProcess, topic: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, "zstd", messages())

    said = tool(tidelog, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)

    (broker,) = json.loads(said.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    assert (broker["broker"], directory["logDir"], directory["error"]) == (1, str(tidelog.log_dir), None)
    size = (tidelog.log_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert directory["partitions"] == [{"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}]


def test_kafka_cluster_tells_the_cluster_id_and_its_endpoints(tidelog: TidelogProcess) -> None:
    said = tool(tidelog, "org.apache.kafka.tools.ClusterTool", "cluster-id")
    assert re.search(r"^Cluster ID: [\w-]{22}$", said, re.MULTILINE)
    listed = tool(tidelog, "org.apache.kafka.tools.ClusterTool", "list-endpoints").splitlines()
    host, port = tidelog.bootstrap.split(":")
    assert listed[-1].split()[:3] == ["1", host, port]


def test_kafka_transactions_sees_who_produced_last(tidelog: TidelogProcess, topic: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, "none", messages())
    command = ("describe-producers", "--topic", topic, "--partition", "0")
    where = ("--bootstrap-server", tidelog.bootstrap)
    head, row = run_tool("org.apache.kafka.tools.TransactionsCommand", *where, *command).splitlines()
    assert head.split()[:2] == ["ProducerId", "ProducerEpoch"]
    facts = dict(zip(head.split(), row.split(), strict=True))
    assert (facts["ProducerEpoch"], facts["LastSequence"]) == ("0", "53")
    assert facts["CurrentTransactionStartOffset"] == "None"
