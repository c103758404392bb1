"""Watch stories about replication: production brokers in a simulated world, every replica shown after every step."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, checked, whole_number
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.output import OutputFormat, is_coloured, write_rows
from tidelog.cli.scenario_files import find, names, read

if TYPE_CHECKING:
    from tidelog.simulation.scenario import Played, Scenario

_WIDTH_MAX: Final = 110
_SEED_MAX: Final = (1 << 63) - 1
_EXAMPLES: Final = """\
examples:
  tidelog scenario list
  tidelog scenario show loss_by_high_watermark            the text, as it is written
  tidelog scenario play loss_by_high_watermark            watch it
  tidelog scenario play loss_by_high_watermark --step     Enter goes on
  tidelog scenario play ./mine.txt --seed 7               your own; docs/scenarios.md has all commands
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog scenario` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="name every scenario, and say what it shows")
    add_format_argument(listing)
    listing.set_defaults(run=_run_list)
    showing = verbs.add_parser("show", help="print the text of a scenario")
    showing.add_argument("name", metavar="NAME", help="one of `list`, or a path")
    showing.set_defaults(run=_run_show)
    playing = verbs.add_parser("play", help="play a scenario and compare it with what is written", epilog=_EXAMPLES)
    playing.add_argument("name", metavar="NAME", help="one of `list`, or a path")
    playing.add_argument("--step", action="store_true", help="wait for Enter after every step")
    playing.add_argument(
        "--seed", type=checked(whole_number(low=0, high=_SEED_MAX, what="the seed")), metavar="N",
        help="other timing and order of things; tables must come out the same",
    )  # fmt: skip
    add_format_argument(playing)
    playing.set_defaults(run=_run_play)


def _run_list(options: argparse.Namespace) -> int:
    rows = [{"name": name, "title": parsed.title, "summary": parsed.summary} for name, parsed in _all()]
    write_rows(sys.stdout, OutputFormat(options.format), ("name", "title"), rows)
    return EXIT_OK


def _all() -> Iterator[tuple[str, Scenario]]:
    for name in names():
        yield name, _parsed(find(name))


def _run_show(options: argparse.Namespace) -> int:
    sys.stdout.write(read(find(options.name)))
    return EXIT_OK


def _run_play(options: argparse.Namespace) -> int:
    from tidelog.simulation.scenario import OWN_SEED, EndedBadly, ScenarioError, play

    scenario = _parsed(find(options.name))
    show = _show_json if OutputFormat(options.format) is OutputFormat.JSON else _show_page
    try:
        steps = play(scenario, seed=OWN_SEED if options.seed is None else options.seed)
        is_as_written = show(scenario, steps, is_stepwise=options.step)
    except ScenarioError as error:
        raise WrongUsage(str(error)) from None
    except EndedBadly as error:
        raise CommandFailed(str(error)) from None
    return EXIT_OK if is_as_written else EXIT_FAILED


def _show_page(scenario: Scenario, steps: Iterator[Played], *, is_stepwise: bool) -> bool:
    from tidelog.cli.scenario_page import Page

    width = min(shutil.get_terminal_size().columns, _WIDTH_MAX)
    page = Page(width=width, in_colour=is_coloured(sys.stdout))
    sys.stdout.write(f"{page.title(scenario)}\n")
    problems: list[str] = []
    count = len(scenario.steps)
    for number, step in enumerate(scenario.steps, start=1):
        sys.stdout.write(page.announced(step, number, count))
        sys.stdout.flush()
        played = next(steps, None)
        if played is None:
            break
        problems = _problems(played, scenario)
        sys.stdout.write(page.told(played, problems))
        sys.stdout.flush()
        if problems:
            break
        if is_stepwise and number < count:
            _wait_for_enter()
    if not problems:
        _finish(steps)
    sys.stdout.write(f"{page.outro(scenario)}{page.verdict(problems)}")
    return not problems


def _show_json(scenario: Scenario, steps: Iterator[Played], *, is_stepwise: bool) -> bool:
    """The whole at once: a program needs no pause between steps."""
    from tidelog.cli.scenario_page import rows

    del is_stepwise
    played = list(steps)
    problems = [problem for one in played for problem in _problems(one, scenario)]
    whole = {
        "title": scenario.title,
        "summary": scenario.summary,
        "is_as_written": not problems,
        "problems": problems,
        "steps": rows(played),
    }
    sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    return not problems


def _problems(played: Played, scenario: Scenario) -> list[str]:
    """What is not as written; a file without events says nothing about them."""
    if played.problems or not (played.step.events and played.are_events_stale):
        return list(played.problems)
    return [f"{scenario.where}:{played.step.line}: other events happened than are written"]


def _finish(steps: Iterator[Played]) -> None:
    """Stop the cluster, unless it stopped by itself; what its last look finds is raised."""
    for _ in steps:
        continue


def _wait_for_enter() -> None:
    sys.stderr.write("-- Enter goes on, Ctrl-C ends --")
    sys.stderr.flush()
    if not sys.stdin.readline():
        raise KeyboardInterrupt
    sys.stderr.write("\n" if not sys.stdin.isatty() else "")


def _parsed(path: Path) -> Scenario:
    from tidelog.simulation.scenario import ScenarioError, parse

    try:
        return parse(read(path), where=str(path))
    except ScenarioError as error:
        raise WrongUsage(str(error)) from None
