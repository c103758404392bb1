"""The spec of a pipeline, `spark-pipeline.yml`: read and checked before Spark is started, so that a slip costs a second and has a line.

The format is that of Spark Declarative Pipelines, and whatever passes here, Spark's own `spark-pipelines run` takes, too; but for a storage
that is given as a path, which we take from the directory of the spec.
"""

from __future__ import annotations

import difflib
import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from yaml import MappingNode, Node

FILE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
KEYS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
SUFFIXES: Final = (".py", ".sql")
_NAME_MAX: Final = 200
_BYTES_MAX: Final = 1 << 20
_EVERYTHING_BELOW: Final = "/**"


class SpecRefused(Exception):
    """A spec cannot be used; the message names the file, the line where there is one, and what is accepted."""

    def __init__(self, path: Path, reason: str, *, line: int | None = None) -> None:
        super().__init__(f"{path}{'' if line is None else f', line {line}'}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A pipeline as its spec declares it."""

    path: Path  # of the spec, absolute
    name: str
    storage: Path  # absolute, in a file system that is mounted here
    catalog: str | None
    database: str | None
    configuration: Mapping[str, str]
    libraries: Sequence[str]  # as written: a file, or a directory and `/**`

    @property
    def directory(self) -> Path:
        """What definition files are looked for in."""
        return self.path.parent

    @property
    def storage_uri(self) -> str:
        """The storage as Spark wants it."""
        return self.storage.as_uri()


def find_spec(place: Path) -> Path:
    """The spec that is meant by a directory or a file. Raises SpecRefused."""
    place = place.absolute()
    if place.is_file():
        return place
    if not place.exists():
        raise SpecRefused(place, "there is no such file or directory; `tidelog pipeline init NAME` makes a pipeline")
    found = [place / name for name in FILE_NAMES if (place / name).is_file()]
    if not found:
        raise SpecRefused(place, f"has no {FILE_NAMES[0]}; `tidelog pipeline init NAME` makes a pipeline")
    if len(found) > 1:
        raise SpecRefused(place, f"has both {' and '.join(FILE_NAMES)}; name the one that is meant")
    return found[0]


def read_spec(path: Path) -> Spec:
    """The spec in a file. Raises SpecRefused."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SpecRefused(path, f"cannot be read: {error.strerror or error}") from None
    if len(content) > _BYTES_MAX:
        raise SpecRefused(path, f"is larger than {_BYTES_MAX} bytes, which no spec is")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise SpecRefused(path, f"is not UTF-8 (byte {error.start})") from None
    return parse_spec(text, path.absolute())


def parse_spec(text: str, path: Path) -> Spec:
    """The spec in a text. Raises SpecRefused, which names the line."""
    fields = _Fields(path, _composed(text, path))
    database, schema = fields.text("database"), fields.text("schema")
    if database is not None and schema is not None:
        raise fields.refused("schema", "is another word for database; say one of them")
    name = fields.required_text("name")
    if len(name) > _NAME_MAX or not name.isprintable():
        raise fields.refused("name", f"must be printable and have at most {_NAME_MAX} characters")
    return Spec(
        path=path,
        name=name,
        storage=_storage(fields),
        catalog=fields.text("catalog"),
        database=database or schema,
        configuration=fields.texts("configuration"),
        libraries=_libraries(fields),
    )


def definition_files(spec: Spec) -> list[Path]:
    """The files that the libraries name, each once, in the order in which they are read. Raises SpecRefused."""
    if not spec.libraries:
        raise SpecRefused(
            spec.path,
            "has no libraries: say where the definition files are, as libraries: [{glob: {include: transformations/**}}]",
        )
    found: dict[Path, None] = {}
    for include in spec.libraries:
        matching = _matching(spec.directory, include)
        if not matching:
            raise SpecRefused(spec.path, f"libraries: there is no file at {include} (looked for in {spec.directory})")
        found |= dict.fromkeys(matching)
    for file in found:
        if file.suffix not in SUFFIXES:
            raise SpecRefused(
                file, f"definition files end with {' or '.join(SUFFIXES)}; move this one out of the libraries"
            )
    return list(found)


def _matching(directory: Path, include: str) -> list[Path]:
    pattern = include + "/*" if include.endswith(_EVERYTHING_BELOW) else include
    try:
        matching = sorted(directory.glob(pattern))
    except (ValueError, NotImplementedError):  # an absolute pattern
        matching = [Path(include)]
    return [file for file in matching if file.is_file() and "__pycache__" not in file.parts]


def _composed(text: str, path: Path) -> MappingNode:
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise SpecRefused(path, f"is not YAML: {reason}", line=None if mark is None else mark.line + 1) from None
    except yaml.YAMLError as error:
        raise SpecRefused(path, f"is not YAML: {error}") from None
    if not isinstance(root, yaml.MappingNode):
        raise SpecRefused(
            path, f"is no spec: it must have the keys name, storage and libraries (and may have {', '.join(KEYS[2:6])})"
        )
    return root


class _Fields:
    """The keys of a spec with their lines."""

    def __init__(self, path: Path, root: MappingNode) -> None:
        self._path = path
        self._nodes: dict[str, Node] = {}
        for key, value in root.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name not in KEYS:
                near = difflib.get_close_matches(name, KEYS, n=1, cutoff=0.6)
                advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
                raise SpecRefused(path, f"unknown key {name!r}; {advice}", line=line)
            if name in self._nodes:
                raise SpecRefused(path, f"{name} is there twice", line=line)
            self._nodes[name] = value

    def refused(self, name: str, reason: str, node: Node | None = None) -> SpecRefused:
        """The refusal of a key, with its line."""
        place = node or self._nodes.get(name)
        return SpecRefused(self._path, f"{name} {reason}", line=None if place is None else place.start_mark.line + 1)

    def node(self, name: str) -> Node | None:
        """What stands at a key."""
        return self._nodes.get(name)

    def text(self, name: str) -> str | None:
        """The text at a key, if there is one."""
        node = self._nodes.get(name)
        if node is None or node.tag == "tag:yaml.org,2002:null":
            return None
        if node.id != "scalar" or not str(node.value).strip():
            raise self.refused(name, "must be a text")
        return str(node.value)

    def required_text(self, name: str) -> str:
        """The text at a key that must be there."""
        text = self.text(name)
        if text is None:
            raise self.refused(name, "is missing")
        return text

    def texts(self, name: str) -> dict[str, str]:
        """The texts by name at a key: what Spark takes as configuration."""
        node = self._nodes.get(name)
        if node is None or node.tag == "tag:yaml.org,2002:null":
            return {}
        if node.id != "mapping":
            raise self.refused(name, 'must be settings of Spark by name, as in {spark.sql.shuffle.partitions: "2"}')
        found = {}
        for key, value in node.value:
            if value.id != "scalar" or value.tag != "tag:yaml.org,2002:str":
                raise self.refused(name, f"{key.value}: Spark takes texts only; write the value in quotes", value)
            found[str(key.value)] = str(value.value)
        return found


def _storage(fields: _Fields) -> Path:
    """Checkpoints, tables, lock and state all live there, and our sink stages there: it must be mounted."""
    text = fields.required_text("storage")
    parts = urlsplit(text)
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
        raise fields.refused(
            "storage", f"{text!r} is not in a file system that is mounted here: give a path, or file:///path"
        )
    path = Path(unquote(parts.path) if parts.scheme else text)
    return (fields._path.parent / path).resolve()  # noqa: SLF001  # one thing in two pieces


def _libraries(fields: _Fields) -> tuple[str, ...]:
    node = fields.node("libraries")
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return ()
    if node.id != "sequence":
        raise fields.refused("libraries", "must be a list, as in [{glob: {include: transformations/**}}]")
    return tuple(_include(fields, entry) for entry in node.value)


def _include(fields: _Fields, entry: Node) -> str:
    """Of `{glob: {include: PATTERN}}` the pattern."""
    node = entry
    for key in ("glob", "include"):
        found = [value for name, value in node.value if name.value == key] if node.id == "mapping" else []
        if not found or len(node.value) != 1:
            raise fields.refused("libraries", "takes entries of the form {glob: {include: PATTERN}}", entry)
        node = found[0]
    pattern = str(node.value)
    prefix = pattern.removesuffix(_EVERYTHING_BELOW)
    if node.id != "scalar" or not pattern or glob.has_magic(prefix):
        raise fields.refused("libraries", f"{pattern!r}: accepted are a file, or a directory and /**", entry)
    return pattern
