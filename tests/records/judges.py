"""Record classes of other clients, against which ours are judged."""

from __future__ import annotations

import warnings

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates; that is not ours to fail on.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

__all__ = ["AiokafkaBatch", "AiokafkaBuilder", "KafkaPythonBatch", "KafkaPythonBuilder"]
