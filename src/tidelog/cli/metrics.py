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
    from tidelog.client import Admin, Cluster, ConsumerConfig
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

    from tidelog.client import Admin
    from tidelog.client.errors import ClientError

    admin = Admin(cluster, config, runtime)
    hosts = await _hosts(options.broker, admin)

    async def told_by(broker: int) -> tuple[str, str]:
        url = await _url_of(broker, hosts[broker], admin)
        return url, "" if options.urls else await _page(broker, url)

    asked = await asyncio.gather(*map(told_by, hosts), return_exceptions=True)
    answers = {
        broker: answer for broker, answer in zip(hosts, asked, strict=True) if not isinstance(answer, BaseException)
    }
    for broker, failure in zip(hosts, asked, strict=True):
        # One that hangs keeps back nothing of what the others have to tell.
        if isinstance(failure, CommandFailed | ClientError):
            sys.stderr.write(f"tidelog: {f'broker {broker}: ' if isinstance(failure, ClientError) else ''}{failure}\n")
        elif isinstance(failure, BaseException):
            raise failure
    if options.urls:
        sys.stdout.writelines(f"{url}\n" for url, _ in answers.values())
        return EXIT_OK if len(answers) == len(hosts) else EXIT_FAILED
    found = [
        sample
        for broker, (_, page) in answers.items()
        for sample in samples(broker, page)
        if not options.names or any(name in sample.name for name in options.names)
    ]
    _write(found, options.format)
    return EXIT_OK if found and len(answers) == len(hosts) else EXIT_FAILED


def _write(found: Sequence[Sample], output_format: str) -> None:
    if output_format != "json":
        sys.stdout.writelines(f"{one.as_text()}\n" for one in found)
        return
    rows = [{"broker": one.broker, "name": one.name, "labels": one.labels, "value": one.known_value} for one in found]
    sys.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


async def _hosts(wanted: Sequence[int] | None, admin: Admin) -> dict[int, str]:
    """The brokers that are asked, and where they are. Raises CommandFailed for one that is not there."""
    hosts = {broker.broker_id: broker.host for broker in (await admin.describe_cluster()).brokers}
    for broker_id in wanted or ():
        if broker_id not in hosts:
            raise CommandFailed(f"broker {broker_id} is not there; there are {', '.join(map(str, sorted(hosts)))}")
    return {broker_id: hosts[broker_id] for broker_id in wanted or sorted(hosts)}


async def _url_of(broker_id: int, host: str, admin: Admin) -> str:
    """Where a broker shows its metrics. Raises CommandFailed for one that shows none, and ClientError."""
    import asyncio

    from tidelog.client import ConfigResource, ResourceKind

    asked = ConfigResource(ResourceKind.BROKER, str(broker_id))
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            (described,) = await admin.describe_configs([asked], names=[SETTING])
    except TimeoutError:
        raise CommandFailed(f"broker {broker_id} does not answer within {_ANSWER_WITHIN_S:g} s") from None
    entry = described.configs.get(SETTING)
    value = "" if entry is None else entry.value
    if not value:
        raise CommandFailed(
            f"broker {broker_id} shows no metrics: start it with -X {SETTING}=http://127.0.0.1:9404 or another port"
        )
    return _url(value.partition(",")[0], host)


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
