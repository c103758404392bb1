"""Clients of other languages that do what the tests tell them: java/Driver.java and npm/driver.js, one process each per session.

A command is a line of fields separated by tabs. The answer is any number of lines `= field...`, then `done`, or `failed`, the name of the
client's error and its message. Bytes are base64, null is `-`, settings are `name=value` separated by spaces. A record to send is
`partition;timestamp;key;value;headers`, its headers are `name:value` separated by commas.
"""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tests.compatibility.apache_kafka import ROOT, ToolMissing
from tests.compatibility.message import Message
from tests.compatibility.processes import ProcessFailed, RunningProcess

ANSWER_TIMEOUT_S: Final = 90
_COMPILE_TIMEOUT_S: Final = 60
_FETCH_TIMEOUT_S: Final = 300
_JAVA: Final = Path(__file__).with_name("java")
_JAVA_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_NPM: Final = Path(__file__).with_name("npm")
_NULL: Final = "-"


class ClientError(Exception):
    """What the client raised: the name of its error, and the message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Sent(NamedTuple):
    """Where a record ended up, as its sender was told; offset and time are -1 when nobody said."""

    partition: int
    offset: int
    timestamp_ms: int


class Found(NamedTuple):
    """An offset the client asked for, and its time where there is one."""

    offset: int | None
    timestamp_ms: int | None


class Received(NamedTuple):
    """A record and where it was."""

    offset: int
    message: Message


class Driver(RunningProcess):
    """A client of another language, connected to one broker."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(command, has_input=True)
        try:
            self.wait_for(r"^listening$")
        except ProcessFailed:
            self.kill()
            raise

    def ask(self, command: str, *fields: object) -> list[list[str]]:
        """What the client answers, a list of fields per line. Raises ClientError when the client failed."""
        self.write_line("\t".join([command, *map(str, fields)]))
        answer: list[list[str]] = []
        while True:
            line = self.wait_for(
                r"^(= (?P<fields>.*)|done|failed\t(?P<name>.*?)\t(?P<message>.*))$", timeout_s=ANSWER_TIMEOUT_S
            )
            if line["name"] is not None:
                raise ClientError(line["name"], line["message"])
            if line["fields"] is None:
                return answer
            answer.append(line["fields"].split("\t"))

    def produce(
        self, topic: str, messages: Iterable[Message], *, partition: int | None = 0, **settings: str
    ) -> list[Sent]:
        """Send the records and wait for all."""
        records = [_record(message, partition) for message in messages]
        return [Sent(*map(int, row)) for row in self.ask("produce", topic, settings_text(settings), *records)]

    def consume(
        self, topic: str, count: int, *, partition: int = 0, where: int | str = "beginning", **settings: str
    ) -> list[Received]:
        """At least `count` records from an offset, `beginning` or `end`."""
        rows = self.ask("consume", topic, partition, where, count, settings_text(settings))
        return [Received(int(row[0]), _message(row)) for row in rows]

    def positions(self, topic: str, *times_ms: int, partition: int = 0, **settings: str) -> dict[str, Found]:
        """`beginning`, `end`, and the first offset at or after each of the times."""
        rows = self.ask("positions", topic, partition, settings_text(settings), *times_ms)
        return {row[0]: Found(_number(row[1]), _number(row[2])) for row in rows}


def java_driver(jars: Path, classes: Path, bootstrap: str) -> Driver:
    """A Java client of the version in `jars`; the driver is compiled against it into `classes`."""
    _compile(jars, classes, "Driver.java", "Members.java", "Transactions.java")
    return Driver(["java", *_JAVA_OPTIONS, "-cp", f"{classes}:{jars}/*", "Driver", bootstrap])


def tools_driver(jars: Path, classes: Path) -> Driver:
    """Kafka's own tools, all in one JVM: a command is the main class of a tool and its arguments."""
    _compile(jars, classes, "Tools.java")
    return Driver(["java", *_JAVA_OPTIONS, "-cp", f"{classes}:{jars}/*", "Tools"])


def group_story(jars: Path, classes: Path) -> list[str]:
    """The command that tells the story of java/GroupStory.java to a broker whose address is added to it."""
    _compile(jars, classes, "GroupStory.java")
    return ["java", *_JAVA_OPTIONS, "-cp", f"{classes}:{jars}/*", "GroupStory"]


def _compile(jars: Path, classes: Path, *sources: str) -> None:
    if shutil.which("javac") is None:
        raise ToolMissing("`javac` is not installed; on Debian: apt-get install default-jdk-headless")
    compiler = ["javac", "--release", "11", "-Xlint:all,-classfile,-path,-processing", "-Werror"]
    command = [*compiler, "-cp", f"{jars}/*", "-d", str(classes), *(str(_JAVA / source) for source in sources)]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
    if compiled.returncode != 0:
        raise ProcessFailed(f"the driver does not compile against {jars.name}:\n{compiled.stdout}{compiled.stderr}")


def kafkajs_driver(installed: Path, bootstrap: str) -> Driver:
    """KafkaJS as npm brought it to `installed`."""
    environment = ["env", "KAFKAJS_NO_PARTITIONER_WARNING=1"]
    return Driver([*environment, "node", str(_NPM / "driver.js"), bootstrap, str(installed)])


def kafkajs() -> Path:
    """The directory with KafkaJS and its codecs, installed on first use exactly as package-lock.json pins them."""
    directory = ROOT / ".cache" / "npm"
    lock = _NPM / "package-lock.json"
    complete = directory / ".complete"
    if complete.exists() and complete.read_text() == lock.read_text():
        return directory
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise ToolMissing(f"`{program}` is not installed; on Debian: apt-get install nodejs npm")
    directory.mkdir(parents=True, exist_ok=True)
    for file in (lock, _NPM / "package.json"):
        shutil.copy(file, directory)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ToolMissing(f"npm could not install KafkaJS:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    complete.write_text(lock.read_text())
    return directory


def settings_text(settings: dict[str, str]) -> str:
    """Settings by their Kafka names, an underscore for each dot, as the drivers read them."""
    return " ".join(f"{name.replace('_', '.')}={value}" for name, value in settings.items())


def _record(message: Message, partition: int | None) -> str:
    headers = ",".join(f"{_text(name.encode())}:{_text(value)}" for name, value in message.headers)
    where = _NULL if partition is None else str(partition)
    return ";".join([where, str(message.timestamp_ms), _text(message.key), _text(message.value), headers])


def _message(row: list[str]) -> Message:
    _offset, timestamp, _type, key, value, joined = row
    pairs = [pair.split(":") for pair in joined.split(",") if pair]
    headers = tuple((b64decode(name).decode(), _bytes(content)) for name, content in pairs)
    return Message(_bytes(key), _bytes(value), headers, int(timestamp))


def _text(content: bytes | None) -> str:
    return _NULL if content is None else b64encode(content).decode()


def _bytes(field: str) -> bytes | None:
    return None if field == _NULL else b64decode(field)


def _number(field: str) -> int | None:
    return None if field == _NULL else int(field)
