"""What a broker keeps in reserve against a full disk."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.config import BrokerConfig
from tidelog.runtime.real import RealDisk
from tidelog.runtime.reserve import Reserve

_FILE: Final = "tidelog.reserve"
_OF_REGISTRY_BYTES: Final = 1 << 20  # its transactions are small


def keep_reserves(config: BrokerConfig, disk: RealDisk) -> None:
    """Have each log directory keep its reserve; they are there already."""
    for directory in config.log_dirs if config.reserve_bytes else ():
        disk.rooms.keep(directory, Reserve(str(Path(directory) / _FILE), config.reserve_bytes))


def registry_reserve(config: BrokerConfig, path: Path) -> Reserve | None:
    """What the brokers of a machine keep for the registry they share."""
    if not config.reserve_bytes:
        return None
    return Reserve(f"{path}.reserve", min(config.reserve_bytes, _OF_REGISTRY_BYTES))
