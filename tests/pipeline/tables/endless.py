"""A query into a table without Spark, in a process that can be killed: `python -m tests.pipeline.tables.endless FORMAT HOME RUN`.

It goes on where its predecessor wrote down that it was done, which is after the commit, as Spark does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.pipeline.tables.driving import DrivenTable, rows_of

READY: Final = "ready to be killed"
ROWS: Final = 20
MICRO_BATCHES_MAX: Final = 500


def main(table_format: str, home: Path, run: str) -> None:
    """Micro-batch after micro-batch."""
    query = DrivenTable(table_format, home, run=run)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    for number in range(done_count(home), MICRO_BATCHES_MAX):
        query.run_micro_batch(number, *_rows(number))
        (home / "done").mkdir(exist_ok=True)
        (home / "done" / str(number)).touch()


def finish(table_format: str, home: Path) -> int:
    """Repeat the micro-batch that may be half done; how many rows there must be."""
    number = done_count(home)
    DrivenTable(table_format, home, run="last").run_micro_batch(number, *_rows(number))
    return (number + 1) * ROWS


def done_count(home: Path) -> int:
    """How many micro-batches are written down to be done."""
    return len(list((home / "done").glob("*")))


def _rows(number: int) -> tuple[object, ...]:
    first = number * ROWS
    return rows_of(range(first, first + ROWS // 2)), rows_of(range(first + ROWS // 2, first + ROWS))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
