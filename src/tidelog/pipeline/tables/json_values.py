"""JSON texts as rows of a schema, strictly: a value that is not what the schema says is told, with the field and the reason, not made null.

Fields that the schema does not name are passed over. A field that is missing is null, and wrong if the schema says NOT NULL.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tidelog.pipeline.sink.errors import BadRows

_SHOWN_MAX: Final = 60
_WHOLE: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_FLOAT_MAX: Final = 3.4028234663852886e38

Read = Callable[[Any], Any]


class Misfit(Exception):
    """A text that is no row; as a text, the field and the reason."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self._reason = reason
        self._path = path

    def within(self, name: str) -> Misfit:
        """The same, of a field in which the field is."""
        joint = "." if self._path and not self._path.startswith("[") else ""
        return Misfit(self._reason, f"{name}{joint}{self._path}")


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is read."""

    name: str
    read: Read
    is_required: bool


class JsonReader:
    """Reads texts by a schema of Spark. Raises BadRows for a schema that JSON cannot tell."""

    def __init__(self, schema: Any) -> None:
        self._row = _struct(schema, "")
        # Digits behind the point are kept as they are written: a float would have lost some before a decimal is made of them.
        self._decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)

    def read(self, text: bytes | str | None) -> dict[str, Any]:
        """The row, by the names of its fields. Raises Misfit."""
        if text is None:
            raise Misfit("there is no value")
        try:
            said = self._decoder.decode(text if isinstance(text, str) else text.decode())
        except UnicodeDecodeError:
            raise Misfit("not JSON: not UTF-8") from None
        except ValueError as error:
            raise Misfit(f"not JSON: {error}") from None
        except RecursionError:
            raise Misfit("not JSON: nested too deeply") from None
        if not isinstance(said, dict):
            raise Misfit(f"not an object, but {_shown(said)}")
        row: dict[str, Any] = self._row(said)
        return row


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _struct(schema: Any, path: str) -> Read:
    fields = [
        Field(each.name, _reader(each.dataType, f"{path}{each.name}"), not each.nullable) for each in schema.fields
    ]

    def read(said: Any) -> dict[str, Any]:
        if not isinstance(said, dict):
            raise Misfit(f"expected an object, got {_shown(said)}")
        return {field.name: _field(field, said) for field in fields}

    return read


def _field(field: Field, said: Mapping[str, Any]) -> Any:
    value = said.get(field.name)
    if value is None:
        if field.is_required:
            raise Misfit(f"{'null' if field.name in said else 'missing'}, and must not be", field.name)
        return None
    try:
        return field.read(value)
    except Misfit as misfit:
        raise misfit.within(field.name) from None


def _reader(kind: Any, path: str) -> Read:
    name = kind.typeName()
    if name in _WHOLE:
        return _whole(kind.simpleString(), _WHOLE[name])
    match name:
        case "struct":
            return _struct(kind, f"{path}.")
        case "array":
            return _array(_reader(kind.elementType, f"{path}[]"), allows_null=kind.containsNull)
        case "map":
            return _map(_reader(kind.valueType, f"{path}{{}}"), kind.keyType.typeName(), path)
        case "decimal":
            return _decimal(kind.precision, kind.scale)
        case _ if name in _PLAIN:
            return _PLAIN[name]
    raise BadRows(f"field {path!r} is {kind.simpleString()}, which is not read from JSON: read it as a string")


def _whole(called: str, bits: int) -> Read:
    bound = 1 << (bits - 1)

    def read(said: Any) -> int:
        if isinstance(said, bool) or not isinstance(said, int):
            raise _expected(called, said)
        if not -bound <= said < bound:
            raise Misfit(f"{_shown(said)} does not fit into {called}")
        return said

    return read


def _decimal(precision: int, scale: int) -> Read:
    called = f"decimal({precision},{scale})"
    unit = Decimal(1).scaleb(-scale)

    def read(said: Any) -> Decimal:
        if isinstance(said, bool) or not isinstance(said, int | Decimal | str):
            raise _expected(called, said)
        try:
            number = Decimal(said)
            exact = number.quantize(unit)
        except InvalidOperation:
            raise (_expected(called, said) if isinstance(said, str) else _overflow(said, called)) from None
        if exact != number or exact.adjusted() >= precision - scale:
            raise _overflow(said, called)
        return exact

    return read


def _overflow(said: Any, called: str) -> Misfit:
    return Misfit(f"{_shown(said)} does not fit into {called}")


def _double(said: Any) -> float:
    if isinstance(said, bool) or not isinstance(said, int | Decimal):
        raise _expected("double", said)
    try:
        number = float(said)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise Misfit(f"{_shown(said)} does not fit into double")
    return number


def _float(said: Any) -> float:
    if abs(number := _double(said)) > _FLOAT_MAX:
        raise Misfit(f"{_shown(said)} does not fit into float")
    return number


def _string(said: Any) -> str:
    if not isinstance(said, str):
        raise _expected("string", said)
    return said


def _boolean(said: Any) -> bool:
    if not isinstance(said, bool):
        raise _expected("boolean", said)
    return said


def _date(said: Any) -> datetime.date:
    try:
        return datetime.date.fromisoformat(_string(said))
    except (Misfit, ValueError):
        raise _expected("date (2026-01-31)", said) from None


def _timestamp(said: Any) -> datetime.datetime:
    """What names no zone is taken to be in UTC."""
    moment = _moment(said, "timestamp (2026-01-31T12:00:00Z)")
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)


def _timestamp_ntz(said: Any) -> datetime.datetime:
    moment = _moment(said, "timestamp_ntz (2026-01-31T12:00:00)")
    if moment.tzinfo is not None:
        raise _expected("a timestamp without a zone", said)
    return moment


def _moment(said: Any, called: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(_string(said))
    except (Misfit, ValueError, OverflowError):
        raise _expected(called, said) from None


def _array(read_one: Read, *, allows_null: bool) -> Read:
    def read(said: Any) -> list[Any]:
        if not isinstance(said, list):
            raise _expected("array", said)
        return [_element(read_one, index, one, allows_null) for index, one in enumerate(said)]

    return read


def _element(read_one: Read, index: int, said: Any, allows_null: bool) -> Any:  # noqa: FBT001
    if said is None:
        if not allows_null:
            raise Misfit("null, and must not be", f"[{index}]")
        return None
    try:
        return read_one(said)
    except Misfit as misfit:
        raise misfit.within(f"[{index}]") from None


def _map(read_one: Read, key_kind: str, path: str) -> Read:
    if key_kind != "string":
        raise BadRows(f"field {path!r} is a map whose keys are {key_kind}; in JSON they are strings")

    def read(said: Any) -> list[tuple[str, Any]]:
        if not isinstance(said, dict):
            raise _expected("object", said)
        return [(key, None if one is None else read_one(one)) for key, one in said.items()]

    return read


_PLAIN: Final[dict[str, Read]] = {
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "string": _string,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}


def _expected(called: str, said: Any) -> Misfit:
    return Misfit(f"expected {called}, got {_shown(said)}")


def _shown(said: Any) -> str:
    """What came, by its kind and as far as there is room for it."""
    match said:
        case None:
            return "null"
        case bool():
            return "true" if said else "false"
        case str():
            return f"text {said[:_SHOWN_MAX]!r}"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return f"number {str(said)[:_SHOWN_MAX]}"
