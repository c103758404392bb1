"""A fault plan: how large the cluster is, how it is set up, and what happens to it when. As a file it is JSON, one fault a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

from tidelog.config import BrokerConfig, ConfigError
from tidelog.simulation.faults.menu import CLIENT, MENU, REGISTRY, Damage, FaultKind, Lasting, Targets

BROKERS_MAX: Final = 9
SESSION_TIMEOUT_MS: Final = 6_000
_SESSION_TIMEOUT_RANGE_MS: Final = (100, 600_000)
_TIMED_MS_MAX: Final = 60_000
_AT_MS_MAX: Final = 86_400_000
_FAULTS_MAX: Final = 10_000
_FLUSH_SETTING: Final = "log.flush.interval.messages"
_OWN_SETTINGS: Final = ("node.id", "broker.id", "listeners", "log.dirs", "log.dir")


class PlanError(ValueError):
    """A fault plan that cannot be used; the message says what was wrong and what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that happens to the cluster."""

    at_ms: int  # after the load began
    kind: str  # a word of the menu
    targets: tuple[str, ...] = ()  # names of nodes
    for_ms: int = 0  # until it is undone
    amount: float = 0.0  # what the menu says for its kind

    @property
    def means(self) -> FaultKind:
        """What the menu says of its kind."""
        return MENU[self.kind]

    def sentence(self) -> str:
        """The fault in a few words, for traces and tables."""
        words = [f"{self.at_ms} ms: {self.kind}", *self.targets]
        if self.means.amount is not None:
            words.append(f"amount {self.amount:g}")
        if self.for_ms:
            words.append(f"for {self.for_ms} ms")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A cluster and its faults, in the order of their times. Making one that makes no sense raises PlanError."""

    brokers: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)  # of every broker, by their Kafka names
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        _check_cluster(self)
        for number, fault in enumerate(self.faults, start=1):
            _check_fault(fault, self, f"fault {number}")
        object.__setattr__(self, "faults", tuple(sorted(self.faults, key=lambda fault: fault.at_ms)))

    @property
    def broker_names(self) -> tuple[str, ...]:
        """The nodes that are brokers."""
        return tuple(f"broker-{number}" for number in range(1, self.brokers + 1))

    @property
    def is_flushed(self) -> bool:
        """Whether every message is flushed before it counts, so that a power cut takes nothing that was promised."""
        return self.settings.get(_FLUSH_SETTING) == "1"

    def is_damaging(self, fault: Fault) -> bool:
        """Whether a fault may take promised records from its broker."""
        return fault.means.damage is Damage.ALWAYS or (fault.means.damage is Damage.UNFLUSHED and not self.is_flushed)

    def with_faults(self, faults: Iterable[Fault]) -> FaultPlan:
        """The same cluster with other faults."""
        return replace(self, faults=tuple(faults))

    def to_json(self) -> str:
        """The plan as a file: stable, one fault a line."""
        settings = ",\n".join(
            f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(self.settings.items())
        )
        faults = ",\n".join(f"    {json.dumps(_as_json(fault))}" for fault in self.faults)
        return (
            "{\n"
            f'  "brokers": {self.brokers},\n'
            f'  "session_timeout_ms": {self.session_timeout_ms},\n'
            f'  "settings": {{{_lines(settings, "  ")}}},\n'
            f'  "faults": [{_lines(faults, "  ")}]\n'
            "}\n"
        )

    @classmethod
    def from_json(cls, text: str) -> FaultPlan:
        """Read a plan; raises PlanError that says what was wrong and what is accepted."""
        try:
            read: object = json.loads(text)
        except ValueError as error:
            raise PlanError(f"a fault plan is JSON, and this is not: {error}") from None
        plan = _fields(read, "the plan", ("brokers", "session_timeout_ms", "settings", "faults"))
        listed = plan.get("faults", [])
        if not isinstance(listed, list):
            _refuse("faults", listed, "a list of faults")
        return cls(
            brokers=_integer(plan, "brokers", 3, "the plan"),
            settings=_settings(plan.get("settings", {})),
            session_timeout_ms=_integer(plan, "session_timeout_ms", SESSION_TIMEOUT_MS, "the plan"),
            faults=tuple(_fault(each, f"fault {number}") for number, each in enumerate(listed, start=1)),
        )


# Writing.


def _as_json(fault: Fault) -> dict[str, object]:
    written: dict[str, object] = {"at_ms": fault.at_ms, "kind": fault.kind}
    if fault.targets:
        written["targets"] = list(fault.targets)
    if fault.for_ms:
        written["for_ms"] = fault.for_ms
    if fault.amount:
        written["amount"] = fault.amount
    return written


def _lines(content: str, indent: str) -> str:
    return f"\n{content}\n{indent}" if content else ""


# Reading.


def _refuse(where: str, given: object, accepted: str) -> NoReturn:
    raise PlanError(f"{where} is {json.dumps(given)}, accepted is {accepted}")


def _fields(given: object, what: str, known: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(given, dict):
        _refuse(what, given, f"an object with {', '.join(known)}")
    unknown = sorted(name for name in given if name not in known)
    if unknown:
        raise PlanError(f"{what} has a field {unknown[0]!r}, accepted are {', '.join(known)}")
    return given


def _integer(fields: Mapping[str, object], name: str, default: int | None, what: str) -> int:
    value = fields.get(name, default)
    if value is None:
        raise PlanError(f"{what} has no {name}, which is a whole number")
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(f"{name} of {what}", value, "a whole number")
    return value


def _settings(given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        _refuse("settings", given, "an object of broker settings by their Kafka names")
    for name, value in given.items():
        if not isinstance(value, str):
            _refuse(f"the setting {name}", value, "a string")
    return dict(given)


def _fault(given: object, what: str) -> Fault:
    fields = _fields(given, what, ("at_ms", "kind", "targets", "for_ms", "amount"))
    kind, targets, amount = fields.get("kind"), fields.get("targets", []), fields.get("amount", 0.0)
    if not isinstance(kind, str):
        _refuse(f"kind of {what}", kind, f"one of {', '.join(MENU)}")
    if not isinstance(targets, list) or not all(isinstance(each, str) for each in targets):
        _refuse(f"targets of {what}", targets, "a list of names of nodes")
    if not isinstance(amount, int | float) or isinstance(amount, bool):
        _refuse(f"amount of {what}", amount, "a number")
    return Fault(
        at_ms=_integer(fields, "at_ms", None, what),
        kind=kind,
        targets=tuple(targets),
        for_ms=_integer(fields, "for_ms", 0, what),
        amount=float(amount),
    )


# Does it make sense?


def _check_cluster(plan: FaultPlan) -> None:
    if not 1 <= plan.brokers <= BROKERS_MAX:
        _refuse("brokers of the plan", plan.brokers, f"a number from 1 to {BROKERS_MAX}")
    low, high = _SESSION_TIMEOUT_RANGE_MS
    if not low <= plan.session_timeout_ms <= high:
        _refuse("session_timeout_ms of the plan", plan.session_timeout_ms, f"a number from {low} to {high}")
    for name in _OWN_SETTINGS:
        if name in plan.settings:
            raise PlanError(f"the setting {name} is given by the simulation, accepted are all others")
    try:
        BrokerConfig.from_properties({"node.id": "1", "log.dirs": "/data", **plan.settings})
    except ConfigError as error:
        raise PlanError(f"settings of the plan: {error}") from None
    if len(plan.faults) > _FAULTS_MAX:
        _refuse("the number of faults", len(plan.faults), f"at most {_FAULTS_MAX}")


def _check_fault(fault: Fault, plan: FaultPlan, what: str) -> None:
    if fault.kind not in MENU:
        _refuse(f"kind of {what}", fault.kind, f"one of {', '.join(MENU)}")
    what = f"{what} ({fault.kind})"
    if not 0 <= fault.at_ms <= _AT_MS_MAX:
        _refuse(f"at_ms of {what}", fault.at_ms, f"a number from 0 to {_AT_MS_MAX}")
    if not _is_duration_accepted(fault):
        _refuse(f"for_ms of {what}", fault.for_ms, fault.means.lasting.value)
    _check_amount(fault, what)
    _check_targets(fault, plan, what)


def _is_duration_accepted(fault: Fault) -> bool:
    match fault.means.lasting:
        case Lasting.MOMENT:
            return fault.for_ms == 0
        case Lasting.TIMED:
            return 1 <= fault.for_ms <= _TIMED_MS_MAX
        case Lasting.UNDONE:
            return 0 <= fault.for_ms <= _AT_MS_MAX


def _check_amount(fault: Fault, what: str) -> None:
    accepted = fault.means.amount
    if accepted is None:
        if fault.amount:
            _refuse(f"amount of {what}", fault.amount, "none, because it means nothing here")
    elif not math.isfinite(fault.amount) or not accepted.lowest <= fault.amount <= accepted.highest:
        _refuse(
            f"amount of {what}",
            fault.amount,
            f"a number from {accepted.lowest:g} to {accepted.highest:g}: {accepted.meaning}",
        )


def _check_targets(fault: Fault, plan: FaultPlan, what: str) -> None:
    rule = fault.means.targets
    known = _nodes(rule, plan)
    unknown = [name for name in fault.targets if name not in known]
    if unknown and known:
        _refuse(f"a target of {what}", unknown[0], f"one of {', '.join(known)}")
    if not _is_number_accepted(fault.targets, plan, rule):
        _refuse(f"targets of {what}", list(fault.targets), rule.value)


def _nodes(rule: Targets, plan: FaultPlan) -> tuple[str, ...]:
    match rule:
        case Targets.NOBODY:
            return ()
        case Targets.BROKER | Targets.BROKERS:
            return plan.broker_names
        case Targets.PAIR:
            return (*plan.broker_names, CLIENT)
        case Targets.SIDE:
            return (*plan.broker_names, CLIENT, REGISTRY)


def _is_number_accepted(targets: tuple[str, ...], plan: FaultPlan, rule: Targets) -> bool:
    if len(set(targets)) < len(targets):
        return False
    match rule:
        case Targets.NOBODY:
            return not targets
        case Targets.BROKER:
            return len(targets) == 1
        case Targets.BROKERS | Targets.PAIR:
            return len(targets) == 2
        case Targets.SIDE:
            inside = set(targets)
            return bool(inside - {REGISTRY}) and not inside.issuperset((*plan.broker_names, CLIENT))
