"""What a topic's settings demand of the batches its producers send."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.config import LogConfig
from tidelog.records import Codec, ProduceRules

_UNBOUNDED_MS: Final = 2**63 - 1  # Kafka's way of writing "no bound".
_ZSTD_SINCE_VERSION: Final = 7
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class TopicRules:
    """The rules of one topic, for old and new Produce versions alike."""

    def __init__(self, config: LogConfig) -> None:
        codec = _CODECS.get(config.compression_type)  # None: keep the producer's.
        self._rules = ProduceRules(
            max_message_bytes=config.max_message_bytes,
            segment_bytes=config.segment_bytes,
            codec=codec,
            compression_level=_level(config, codec),
            is_compacted=config.is_compacted,
            timestamp_type=config.timestamp_type,
            timestamp_before_max_ms=_bound(config.message_timestamp_before_max_ms),
            timestamp_after_max_ms=_bound(config.message_timestamp_after_max_ms),
            wants_every_record_checked=config.produce_validation == "full",
        )
        self._rules_before_zstd = replace(self._rules, allows_zstd=False)

    def for_version(self, produce_version: int) -> ProduceRules:
        """What a request of this version must obey."""
        return self._rules if produce_version >= _ZSTD_SINCE_VERSION else self._rules_before_zstd


def _bound(duration_ms: int) -> int | None:
    return None if duration_ms >= _UNBOUNDED_MS else duration_ms


def _level(config: LogConfig, codec: Codec | None) -> int | None:
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None
