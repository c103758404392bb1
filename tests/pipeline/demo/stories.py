"""Tests that await."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import ParamSpec

A = ParamSpec("A")


def story(test: Callable[A, Coroutine[object, object, None]]) -> Callable[A, None]:
    """Let a test be a coroutine, on a loop of its own."""

    @functools.wraps(test)
    def told(*args: A.args, **kwargs: A.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return told
