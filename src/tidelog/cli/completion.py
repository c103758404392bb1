"""Print what makes a shell complete commands, options, topics, groups, transactional ids and settings with the Tab key.

The shell asks `tidelog` itself what fits, so that it is never out of date.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.candidates import Candidate, Place, Wanted, place_of, words_of
from tidelog.cli.failure import EXIT_OK, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tidelog.config import Setting
    from tidelog.runtime import Runtime

FILES: Final = ":files"  # the answer that leaves it to the shell
ANSWER_WITHIN_MS: Final = 1000
TOPIC_SETTING: Final = "topic"  # stands for a command, where a topic's settings are meant

_EXAMPLES: Final = """\
examples:
  source <(tidelog completion bash)                             this shell only; or put it into ~/.bashrc
  tidelog completion zsh > "${fpath[1]}/_tidelog"               then start a new shell
  tidelog completion fish > ~/.config/fish/completions/tidelog.fish

topics, groups and transactional ids are asked of $TIDELOG_BOOTSTRAP or of the broker on this machine, for a second at most
"""

_BASH: Final = """\
_tidelog() {
    local IFS=$'\\n'
    COMPREPLY=($(tidelog completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    case "${COMPREPLY[0]}" in
        :files) COMPREPLY=(); compopt -o default ;;
        *=) compopt -o nospace ;;
    esac
}
complete -o nosort -F _tidelog tidelog
"""

_ZSH: Final = """\
#compdef tidelog
_tidelog() {
    local -a found
    found=("${(@f)$(tidelog completion zsh --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    case "$found[1]" in
        "") return 1 ;;
        :files) _files ;;
        *=:*) _describe tidelog found -S "" ;;
        *) _describe tidelog found ;;
    esac
}
if [ "$funcstack[1]" = _tidelog ]; then _tidelog "$@"; else compdef _tidelog tidelog; fi
"""

_FISH: Final = """\
function __tidelog_candidates
    set -l found (tidelog completion fish --line (commandline -cp) 2>/dev/null)
    if test "$found[1]" = :files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $found
    end
end
complete -c tidelog -f -a '(__tidelog_candidates)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog completion`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=sorted(SCRIPTS), metavar="bash|zsh|fish")
    parser.add_argument("--line", help=argparse.SUPPRESS)  # what the shell asks: the line up to the cursor
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script, or what fits at the end of a line."""
    if options.line is None:
        sys.stdout.write(SCRIPTS[options.shell])
        return EXIT_OK
    from tidelog.cli.main import parser_for

    words = words_of(options.line)
    place = place_of(parser_for(words), words)
    if place.wanted is Wanted.FILE:
        sys.stdout.write(f"{FILES}\n")
    else:
        _write(options.shell, place.fitting + _more(place, words[0]))
    return EXIT_OK


def _write(shell: str, candidates: Iterable[Candidate]) -> None:
    for word, meaning in candidates:
        if shell == "bash" or not meaning:
            sys.stdout.write(f"{word}\n")
        elif shell == "zsh":
            sys.stdout.write(f"{word.replace(':', chr(92) + ':')}:{meaning}\n")
        else:
            sys.stdout.write(f"{word}\t{meaning}\n")


def _more(place: Place, command: str) -> list[Candidate]:
    """Topics, groups, transactional ids and settings, which no parser lists."""
    match place.wanted:
        case Wanted.TOPIC | Wanted.GROUP | Wanted.TRANSACTIONAL_ID:
            found = [Candidate(name, "") for name in _names(place.wanted)]
        case Wanted.TOPIC_SETTING | Wanted.PROPERTY:
            rows = _settings(command if place.wanted is Wanted.PROPERTY else TOPIC_SETTING)
            found = [Candidate(f"{row.name}=", row.doc) for row in sorted(rows, key=lambda row: row.name)]
        case _:
            found = []
    return [each for each in found if each.word.startswith(place.prefix)]


def _settings(command: str) -> Collection[Setting]:
    """What can be set by -X of a command, or of a topic."""
    from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS
    from tidelog.config.settings import settings_of

    if command == TOPIC_SETTING:
        return TOPIC_SETTINGS.values()
    if command in {"up", "broker", "registry"}:
        return BROKER_SETTINGS.values()
    from tidelog.client import ConsumerConfig, ProducerConfig

    return settings_of(ProducerConfig if command == "produce" else ConsumerConfig).values()


def _names(wanted: Wanted) -> list[str]:
    """The topics, groups or transactional ids there are; none when nobody answers soon, for a shell must not hang."""
    from tidelog.cli.connecting import run_client

    found: list[str] = []

    async def ask(runtime: Runtime) -> int:
        from tidelog.cli.arguments import default_bootstrap
        from tidelog.client import Admin, ClientConfig

        patience = str(ANSWER_WITHIN_MS)
        config = ClientConfig.from_properties({
            "bootstrap.servers": default_bootstrap(), "client.id": "tidelog-cli", "default.api.timeout.ms": patience,
            "request.timeout.ms": patience,
        })  # fmt: skip
        async with Admin.connect(config, runtime) as admin:
            if wanted is Wanted.TOPIC:
                found.extend(await admin.list_topics())
            elif wanted is Wanted.GROUP:
                found.extend(group.group_id for group in await admin.groups.list_groups())
            else:
                found.extend(one.transactional_id for one in await admin.transactions.list())
        return EXIT_OK

    try:
        run_client(ask)
    except CommandFailed:
        return []
    return found
