"""`python -m tests.scenarios_rewrite [NAME...]`: write the events of scenarios anew. A table that is wrong stays wrong, and is told."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tidelog.simulation.scenario import NotAsWritten, ScenarioError, rewrite_events

SCENARIOS = Path(__file__).with_name("scenarios")


def rewrite(paths: Iterable[Path]) -> list[str]:
    """Rewrite these files; what could not be, a text each."""
    failures = []
    for path in paths:
        text = path.read_text()
        try:
            written = rewrite_events(text, where=path.name)
        except (NotAsWritten, ScenarioError) as error:
            failures.append(f"{path.name} is left as it is: it does not go as written\n{error}")
            continue
        if path.read_text() != text:
            failures.append(f"{path.name} is left as it is: somebody has changed it meanwhile")
        elif written != text:
            path.write_text(written)
    return failures


if __name__ == "__main__":
    named = [SCENARIOS / f"{name.removesuffix('.txt')}.txt" for name in sys.argv[1:]]
    failed = rewrite(named or sorted(SCENARIOS.glob("*.txt")))
    sys.stderr.writelines(f"{failure}\n" for failure in failed)
    sys.exit(bool(failed))
