"""`tidelog demo shop`: everything on one machine, before somebody's eyes."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace
from typing import Final

from tidelog.cli.demo_panel import HOME, line, page, summary
from tidelog.cli.demo_running import place_for, run_until_signal
from tidelog.cli.failure import EXIT_OK
from tidelog.cli.output import OutputFormat, is_coloured
from tidelog.pipeline.demo.running import ShopPlan, running_shop, show, taking_orders
from tidelog.pipeline.demo.watching import Snapshot
from tidelog.runtime.real import real_runtime

_CLEAR: Final = f"{HOME}\x1b[2J"
_LINE_EVERY_S: Final = 5.0


class ShopView:
    """Shows snapshots: a page on a terminal, a line now and then elsewhere, JSON for programs; what happens between them as sentences."""

    def __init__(self, plan: ShopPlan, output_format: OutputFormat) -> None:
        self._plan = plan
        self._is_json = output_format is OutputFormat.JSON
        self._is_live = sys.stdout.isatty() and not self._is_json
        self._is_drawn = False
        self._next_line_s = 0.0
        self.last: Snapshot | None = None

    def news(self, text: str) -> None:
        """Something happened; a page tells of it by itself."""
        if not self._is_drawn:
            sys.stderr.write(f"tidelog: {text}\n")
            sys.stderr.flush()

    def show(self, snapshot: Snapshot) -> None:
        """How it is now."""
        self.last = snapshot
        if self._is_json:
            sys.stdout.write(snapshot.to_json() + "\n")
        elif self._is_live:
            size = shutil.get_terminal_size()
            colour = is_coloured(sys.stdout)
            drawn = page(snapshot, self._plan, in_colour=colour, width=size.columns, height=size.lines)
            sys.stdout.write(drawn if self._is_drawn else _CLEAR + drawn)
            self._is_drawn = True
        elif snapshot.elapsed_s >= self._next_line_s:
            self._next_line_s = snapshot.elapsed_s + _LINE_EVERY_S
            sys.stdout.write(line(snapshot) + "\n")
        sys.stdout.flush()

    def stopping(self) -> None:
        """It takes a few seconds from here on; whoever pressed Ctrl-C shall know that it was heard."""
        sys.stderr.write("tidelog: stopping the orders, Spark and the brokers\n")
        sys.stderr.flush()

    def end(self) -> None:
        """All has stopped."""
        if self.last is not None and not self._is_json:
            sys.stdout.write(summary(self.last) + "\n")
            sys.stdout.flush()


def run_shop(options: argparse.Namespace, plan: ShopPlan) -> int:
    """Run until Ctrl-C, or for as long as was asked for. Raises CommandFailed."""
    runtime = real_runtime()
    with place_for(options.data) as place:
        plan = replace(plan, data=place.path)
        view = ShopView(plan, OutputFormat(options.format))

        starting = "Spark starts, which takes a while; orders wait for it meanwhile"

        async def work() -> None:
            async with running_shop(plan, runtime, view.news) as shop, shop.driver.running(), taking_orders(shop):
                view.news(starting)
                shop.watch.note(starting)
                try:
                    await show(shop, view.show, seconds=options.seconds)
                finally:
                    view.stopping()

        try:
            run_until_signal(work())
        finally:
            runtime.disk.close()
        view.end()
    return EXIT_OK
