"""A child of a soak: reads trials from stdin and writes verdicts to stdout, a line of JSON each, until there are no more."""

from __future__ import annotations

import gc
import json
import sys

from tidelog.simulation.run import run
from tidelog.simulation.verdict import Trial


def main() -> None:
    """Serve until stdin ends."""
    sys.unraisablehook = lambda _: None  # What the coroutines of killed processes say when they are thrown away.
    for line in sys.stdin:
        verdict = run(Trial.from_json(json.loads(line)))
        sys.stdout.write(json.dumps(verdict.to_json(with_trace=not verdict.is_ok)) + "\n")
        sys.stdout.flush()
        del verdict
        gc.collect()


if __name__ == "__main__":
    main()
