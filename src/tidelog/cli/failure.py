"""The one way a command fails: a sentence for stderr and an exit code."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130  # as a shell reports a program ended by SIGINT
EXIT_BROKEN_PIPE: Final = 141  # and by SIGPIPE


class CommandFailed(Exception):
    """What was asked for could not be done; the message is all the user sees."""

    def __init__(self, message: str, *, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class WrongUsage(CommandFailed):
    """What was asked for makes no sense, however healthy the cluster."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=EXIT_USAGE)
