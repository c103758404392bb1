"""Show what brokers count and measure, as Prometheus would read it from each of them.

Brokers show their metrics where `metrics.listeners` says; those of `tidelog up` do so by themselves. docs/operations.md tells what they mean.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import finish_verb, whole_number
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed

if TYPE_CHECKING:
    from tidelog.client import Cluster, ConsumerConfig
    from tidelog.runtime import Runtime

SETTING: Final = "metrics.listeners"
_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ANSWER_WITHIN_S: Final = 10.0
_PAGE_BYTES_MAX: Final = 256 << 20

_EXAMPLES: Final = """\
examples:
  tidelog metrics underreplicated offlinepartitions   only those whose names have one of these in them
  tidelog metrics consumergroup_lag_sum
  tidelog metrics --broker 2 --format json | jq '.[] | select(.value > 0)'
  tidelog metrics --urls                              where they are, for the file that Prometheus reads
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog metrics`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the names to show (default: all)")
    parser.add_argument(
        "--broker", action="append", type=whole_number(low=0, high=2**31 - 1, what="a broker id"), metavar="ID",
        help="only of this broker; may be repeated",
    )  # fmt: skip
    parser.add_argument("--urls", action="store_true", help="only say where each broker shows them")
    parser.add_argument(
        "--format", choices=("prometheus", "json"), default="prometheus",
        help="for Prometheus, with a label that names the broker, or for other programs (default: prometheus)",
    )  # fmt: skip
    finish_verb(parser, _metrics)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page."""

    broker: int
    name: str
    labels: dict[str, str]
    value: float

    @property
    def known_value(self) -> float | None:
        """None for what is no number, such as the median of nothing."""
        return self.value if isfinite(self.value) else None

    def as_text(self) -> str:
        """As Prometheus reads it, with the broker among the labels."""
        labels = ",".join(
            f'{name}="{_escaped(value)}"' for name, value in {"broker": str(self.broker), **self.labels}.items()
        )
        return f"{self.name}{{{labels}}} {_number(self.value)}"


def samples(broker: int, page: str) -> Iterator[Sample]:
    """What a page says, line by line."""
    for line in page.splitlines():
        found = None if line.startswith("#") else _SAMPLE.fullmatch(line)
        if found is not None:
            labels = {name: _unescaped(value) for name, value in _LABEL.findall(found["labels"] or "")}
            yield Sample(broker, found["name"], labels, float(found["value"]))


async def _metrics(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    import asyncio

    urls = await _urls(options.broker, cluster, config, runtime)
    if options.urls:
        sys.stdout.writelines(f"{url}\n" for url in urls.values() if url)
        return EXIT_OK if all(urls.values()) else EXIT_FAILED
    pages = await asyncio.gather(*(_page(broker, url) for broker, url in urls.items()))
    found = [
        sample
        for (broker, _), page in zip(urls.items(), pages, strict=True)
        for sample in samples(broker, page)
        if not options.names or any(name in sample.name for name in options.names)
    ]
    if options.format == "json":
        rows = [
            {"broker": one.broker, "name": one.name, "labels": one.labels, "value": one.known_value} for one in found
        ]
        sys.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{one.as_text()}\n" for one in found)
    return EXIT_OK if found else EXIT_FAILED


async def _urls(
    wanted: Sequence[int] | None, cluster: Cluster, config: ConsumerConfig, runtime: Runtime
) -> dict[int, str]:
    """Where each broker shows its metrics. Raises CommandFailed for one that is not there, or shows none."""
    from tidelog.client import Admin, ConfigResource, ResourceKind

    admin = Admin(cluster, config, runtime)
    brokers = {broker.broker_id: broker for broker in (await admin.describe_cluster()).brokers}
    for broker_id in wanted or ():
        if broker_id not in brokers:
            there = ", ".join(map(str, sorted(brokers)))
            raise CommandFailed(f"broker {broker_id} is not there; there are {there}")
    urls = {}
    for broker_id in wanted or sorted(brokers):
        asked = ConfigResource(ResourceKind.BROKER, str(broker_id))
        (described,) = await admin.describe_configs([asked], names=[SETTING])
        entry = described.configs.get(SETTING)
        value = "" if entry is None else entry.value
        if not value:
            raise CommandFailed(
                f"broker {broker_id} shows no metrics: start it with -X {SETTING}=http://127.0.0.1:9404 or another port"
            )
        urls[broker_id] = _url(value.partition(",")[0], brokers[broker_id].host)
    return urls


def _url(listener: str, broker_host: str) -> str:
    """A listener on every interface is where its broker is."""
    host, _, port = listener.removeprefix("http://").rpartition(":")
    return f"http://{broker_host if host in {'', '0.0.0.0', '[::]'} else host}:{port}/metrics"  # noqa: S104  # recognised


async def _page(broker: int, url: str) -> str:
    import asyncio
    from urllib.error import URLError
    from urllib.request import urlopen

    def read() -> bytes:
        with urlopen(url, timeout=_ANSWER_WITHIN_S) as answer:  # noqa: S310  # made above, always http
            content: bytes = answer.read(_PAGE_BYTES_MAX)
            return content

    try:
        return (await asyncio.to_thread(read)).decode()
    except (URLError, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise CommandFailed(f"the metrics of broker {broker} at {url} cannot be read: {reason}") from None


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    return str(int(value)) if value.is_integer() else repr(value)


def _unescaped(text: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda found: _ESCAPES[found[0]], text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
