"""Schemas as Spark writes them, `id BIGINT NOT NULL, tags ARRAY<STRING>`, read without Spark: definition files of pipelines may not ask it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.sink.errors import BadRows

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|[^\W\d]\w*|\d+|[<>(),:])")
_SIMPLE: Final = {
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_TEXTS: Final = ("varchar", "char")
_DECIMAL_DEFAULT: Final = (10, 0)


def parse_ddl(text: str) -> StructType:
    """Raises BadRows for what is no schema."""
    reader = _Reader(text)
    schema = reader.fields(end=None)
    if not schema.fields:
        raise reader.wrong("a field")
    return schema


class _Reader:
    """Goes from token to token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text.strip())
        self._at = 0

    def fields(self, end: str | None) -> StructType:
        """Up to `end`, or to the end of the text."""
        from pyspark.sql.types import StructType

        found: list[StructField] = []
        while self._next() != end:
            if found:
                self._take(",")
            found.append(self._field())
        return StructType(found)

    def wrong(self, wanted: str) -> BadRows:
        """What to say where something else was wanted."""
        got = self._next()
        return BadRows(
            f"the schema {self._text!r} is not understood: {wanted} was expected, and there is "
            f"{'its end' if got is None else repr(got)}; accepted is DDL: id BIGINT NOT NULL, tags ARRAY<STRING>"
        )

    def _field(self) -> StructField:
        from pyspark.sql.types import StructField

        name = self._word("the name of a field")
        self._maybe(":")
        kind = self._type()
        is_required = self._maybe("not")
        if is_required:
            self._take("null")
        if self._maybe("comment"):
            self._word("a comment")
        return StructField(name, kind, not is_required)

    def _type(self) -> DataType:
        from pyspark.sql.types import ArrayType, MapType, StringType

        name = self._word("a type").lower()
        if name == "array":
            self._take("<")
            array = ArrayType(self._type())
            self._take(">")
            return array
        if name == "map":
            self._take("<")
            key = self._type()
            self._take(",")
            made = MapType(key, self._type())
            self._take(">")
            return made
        if name == "struct":
            self._take("<")
            inner = self.fields(end=">")
            self._take(">")
            return inner
        if name in _DECIMALS:
            return self._decimal()
        if name in _TEXTS:
            self._numbers()
            return StringType()
        if name in _SIMPLE:
            return _simple(_SIMPLE[name])
        self._at -= 1
        raise self.wrong("a type")

    def _decimal(self) -> DataType:
        from pyspark.sql.types import DecimalType

        given = self._numbers()
        precision, scale = (*given, *_DECIMAL_DEFAULT[len(given) :])[:2]
        return DecimalType(precision, scale)

    def _numbers(self) -> list[int]:
        """(10,2), if it is there."""
        found: list[int] = []
        if self._maybe("("):
            while not self._maybe(")"):
                if found:
                    self._take(",")
                word = self._next()
                if word is None or not word.isdecimal():
                    raise self.wrong("a number")
                found.append(int(word))
                self._at += 1
        return found

    def _word(self, wanted: str) -> str:
        word = self._next()
        if word is None or (len(word) == 1 and word in "<>(),:"):
            raise self.wrong(wanted)
        self._at += 1
        return word[1:-1].replace("``", "`") if word.startswith("`") else word

    def _take(self, token: str) -> None:
        if not self._maybe(token):
            raise self.wrong(repr(token.upper()))

    def _maybe(self, token: str) -> bool:
        word = self._next()
        if word is None or word.lower() != token:
            return False
        self._at += 1
        return True

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _split(self, text: str) -> list[str]:
        tokens: list[str] = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise BadRows(f"the schema {self._text!r} is not understood from {text[position:].strip()[:20]!r} on")
            tokens.append(found[1])
            position = found.end()
        return tokens


def _simple(name: str) -> DataType:
    from pyspark.sql import types

    kinds = [kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, types.AtomicType)]
    by_name = {kind.typeName(): kind for kind in kinds}
    made: DataType = by_name[name]()
    return made
