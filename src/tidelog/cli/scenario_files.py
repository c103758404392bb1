"""Where scenarios are: those that come with Tidelog, by name, and anybody's own, by path."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Final

import tidelog
from tidelog.cli.failure import CommandFailed, WrongUsage

_SUFFIX: Final = ".txt"


def directory() -> Path:
    """The scenarios of this installation: beside the package, or in the tests of the repository it runs from."""
    package = Path(tidelog.__file__).parent
    places = [package / "scenarios", package.parents[1] / "tests" / "scenarios"]
    found = next((place for place in places if any(place.glob(f"*{_SUFFIX}"))), None)
    if found is None:
        raise CommandFailed(f"no scenarios are installed: there are none in {places[0]}")
    return found


def names() -> list[str]:
    """The names of all scenarios that come with Tidelog, sorted."""
    return sorted(path.stem for path in directory().glob(f"*{_SUFFIX}"))


def find(name: str) -> Path:
    """The file of a scenario named so, or at that path."""
    if "/" in name or name.endswith(_SUFFIX):
        path = Path(name)
        if not path.is_file():
            raise WrongUsage(f"there is no file {name}")
        return path
    if name not in names():
        near = get_close_matches(name, names(), n=1)
        meant = f"did you mean {near[0]}?" if near else "`tidelog scenario list` shows all"
        raise WrongUsage(
            f"there is no scenario {name}; {meant} (a file of your own is named by its path, such as ./{name}.txt)"
        )
    return directory() / f"{name}{_SUFFIX}"


def read(path: Path) -> str:
    """The text of a scenario."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}") from None
