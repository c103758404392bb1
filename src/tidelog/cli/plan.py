"""What a broker of this command line is going to do, put together from a file, the environment and options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.cli.failure import WrongUsage

STDERR: Final = "-"
LOG_FORMATS: Final = ("text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is known before a broker starts."""

    properties: Mapping[str, str]
    passed_over: Mapping[str, str] = field(default_factory=dict)  # variables of the environment, and why
    log_file: Path | None
    log_format: str
    port_advice: str  # how this command is told to listen elsewhere
    host_advice: str
    warns_of_settings: bool = True  # of several brokers with the same settings one warns

    @property
    def data(self) -> str:
        """Where the records are, if it was said."""
        return self.properties.get("log.dirs") or self.properties.get("log.dir", "")

    @property
    def log_shown(self) -> str:
        """Where the user finds the log."""
        return "stderr" if self.log_file is None else str(self.log_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Settings from outside the command line: the environment's above the file's."""

    properties: Mapping[str, str]
    passed_over: Mapping[str, str]


def add_log_format_argument(parser: argparse.ArgumentParser) -> None:
    """`--log-format text|json`."""
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, default="text", help="for people or for programs (default: text)"
    )


def given_settings(config: Path | None, variables: Mapping[str, str] | None = None) -> Given:
    """What a file and the environment say. Raises WrongUsage."""
    from tidelog.config import BROKER_SETTING_NAMES, ConfigError, from_environment

    file = {} if config is None else _read(config)
    try:
        environment = from_environment(os.environ if variables is None else variables, BROKER_SETTING_NAMES)
    except ConfigError as error:
        raise WrongUsage(str(error)) from None
    return Given(properties={**file, **environment.properties}, passed_over=environment.passed_over)


def _read(path: Path) -> dict[str, str]:
    from tidelog.config import ConfigError, parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUsage(f"--config {path}: {error.strerror}") from None
    except (UnicodeDecodeError, ConfigError) as error:
        raise WrongUsage(f"--config {path}: {error}") from None
