"""The pipelines that this user has run on this machine: one small file each, that says where the storage is. The truth is in the storage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tidelog.pipeline.declared.state import write_whole

_PIPELINES: Final = "pipelines"
_LOOKED_AT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPipeline:
    """Where a pipeline is."""

    name: str
    spec: str
    storage: str


def remember(state_dir: Path, known: KnownPipeline) -> None:
    """Put a pipeline into the directory; one of the same storage is replaced."""
    digest = hashlib.sha256(known.storage.encode()).hexdigest()[:16]
    write_whole(state_dir / _PIPELINES / f"{digest}.json", json.dumps(asdict(known), ensure_ascii=False) + "\n")


def known_pipelines(state_dir: Path) -> Iterator[KnownPipeline]:
    """All of them, in no order. Those whose storage is gone are forgotten."""
    try:
        files = sorted((state_dir / _PIPELINES).glob("*.json"))[:_LOOKED_AT_MAX]
    except OSError:
        return
    for file in files:
        known = _read(file)
        if known is None:
            continue
        if Path(known.storage).is_dir():
            yield known
        else:
            file.unlink(missing_ok=True)


def _read(file: Path) -> KnownPipeline | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return KnownPipeline(name=str(found["name"]), spec=str(found["spec"]), storage=str(found["storage"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not one of ours
