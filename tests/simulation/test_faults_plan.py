"""Fault plans as files: what is written is read again, and what makes no sense is refused with what would."""

from __future__ import annotations

import json

import pytest

from tidelog.simulation.faults import MENU, Fault, FaultPlan, Lasting, PlanError, Targets, describe_menu

TARGETS = {
    Targets.NOBODY: (),
    Targets.BROKER: ("broker-2",),
    Targets.BROKERS: ("broker-1", "broker-3"),
    Targets.PAIR: ("broker-1", "client"),
    Targets.SIDE: ("broker-1", "registry"),
}


def fault_of(kind: str, *, at_ms: int = 100, for_ms: int = 500) -> Fault:
    means = MENU[kind]
    return Fault(
        at_ms=at_ms,
        kind=kind,
        targets=TARGETS[means.targets],
        for_ms=0 if means.lasting is Lasting.MOMENT else for_ms,
        amount=0.0 if means.amount is None else (means.amount.lowest + means.amount.highest) / 2,
    )


def refusal(plan: object) -> str:
    with pytest.raises(PlanError) as refused:
        FaultPlan.from_json(json.dumps(plan))
    return str(refused.value)


def refusal_of(**fault: object) -> str:
    return refusal({"faults": [{"at_ms": 0, "kind": "kill", "targets": ["broker-1"], **fault}]})


@pytest.mark.parametrize("kind", MENU)
def test_a_plan_with_any_kind_of_fault_is_read_as_it_was_written(kind: str) -> None:
    settings = {"log.segment.bytes": "4000", "log.flush.interval.messages": "1"}
    plan = FaultPlan(brokers=4, settings=settings, session_timeout_ms=2_500, faults=(fault_of(kind),))
    assert FaultPlan.from_json(plan.to_json()) == plan


def test_a_file_has_one_fault_a_line_in_the_order_of_their_times() -> None:
    plan = FaultPlan(faults=(fault_of("kill", at_ms=900), fault_of("partition", at_ms=30)))
    assert [line.strip() for line in plan.to_json().splitlines() if "at_ms" in line] == [
        '{"at_ms": 30, "kind": "partition", "targets": ["broker-1", "registry"], "for_ms": 500},',
        '{"at_ms": 900, "kind": "kill", "targets": ["broker-2"], "for_ms": 500}',
    ]


def test_a_plan_without_settings_and_faults_is_a_plan() -> None:
    assert FaultPlan.from_json("{}") == FaultPlan()
    assert FaultPlan.from_json(FaultPlan().to_json()) == FaultPlan()


def test_other_faults_leave_the_cluster_as_it_is() -> None:
    plan = FaultPlan(brokers=5, settings={"log.segment.bytes": "4000"}, faults=(fault_of("kill"),))
    other = plan.with_faults([fault_of("pause")])
    assert (other.brokers, other.settings, [fault.kind for fault in other.faults]) == (5, plan.settings, ["pause"])


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^a fault plan is JSON, and this is not: Expecting .* line 1 column 1"):
        FaultPlan.from_json("kill broker-1")


def test_a_plan_that_is_no_object_is_refused() -> None:
    assert refusal([1]) == "the plan is [1], accepted is an object with brokers, session_timeout_ms, settings, faults"


def test_a_field_nobody_knows_is_refused() -> None:
    assert refusal({"seed": 1}).startswith("the plan has a field 'seed', accepted are brokers, ")
    assert refusal_of(until=3).startswith("fault 1 has a field 'until', accepted are at_ms, ")


def test_an_unknown_kind_is_refused_with_the_kinds_there_are() -> None:
    said = refusal_of(kind="explode")
    assert said.startswith('kind of fault 1 is "explode", accepted is one of kill, ')
    assert all(kind in said for kind in MENU)


@pytest.mark.parametrize("value", [None, 3, ["kill"]])
def test_a_kind_that_is_no_word_is_refused(value: object) -> None:
    assert refusal_of(kind=value).startswith(f"kind of fault 1 is {json.dumps(value)}, accepted is one of kill, ")


def test_a_negative_time_is_refused() -> None:
    assert refusal_of(at_ms=-1) == "at_ms of fault 1 (kill) is -1, accepted is a number from 0 to 86400000"
    assert refusal_of(for_ms=-5).startswith("for_ms of fault 1 (kill) is -5, accepted is at least 1, or 0")


def test_a_time_that_is_no_whole_number_is_refused() -> None:
    assert refusal_of(at_ms="soon") == 'at_ms of fault 1 is "soon", accepted is a whole number'
    assert refusal_of(for_ms=True) == "for_ms of fault 1 is true, accepted is a whole number"
    assert refusal({"faults": [{"kind": "kill-all"}]}) == "fault 1 has no at_ms, which is a whole number"


def test_a_moment_has_no_duration_and_a_stall_needs_one() -> None:
    assert refusal_of(kind="bounce", for_ms=3).endswith("is 3, accepted is 0, because there is nothing to undo")
    assert "from 1 to 60000" in refusal_of(kind="disk-stall", for_ms=0)
    assert "from 1 to 60000" in refusal_of(kind="disk-stall", for_ms=60_001)


def test_an_unknown_target_is_refused_with_those_there_are() -> None:
    assert refusal_of(targets=["broker-4"]) == (
        'a target of fault 1 (kill) is "broker-4", accepted is one of broker-1, broker-2, broker-3'
    )
    assert refusal_of(targets="broker-1").endswith("accepted is a list of names of nodes")


@pytest.mark.parametrize(
    ("kind", "targets", "accepted"),
    [
        ("kill", [], "one broker"),
        ("kill", ["broker-1", "broker-2"], "one broker"),
        ("kill-all", ["broker-1"], "no targets"),
        ("partial-cut", ["broker-1", "broker-1"], "two different brokers"),
        ("reset", ["client"], "two different nodes (brokers or client)"),
        ("partition", ["registry"], Targets.SIDE.value),
        ("partition", ["broker-1", "broker-2", "broker-3", "client"], Targets.SIDE.value),
    ],
)
def test_a_wrong_number_of_targets_is_refused(kind: str, targets: list[str], accepted: str) -> None:
    assert refusal_of(kind=kind, targets=targets) == (
        f"targets of fault 1 ({kind}) is {json.dumps(targets)}, accepted is {accepted}"
    )


def test_an_amount_outside_its_range_is_refused() -> None:
    said = refusal_of(kind="lossy", targets=["broker-1", "client"], amount=1.5)
    assert said == "amount of fault 1 (lossy) is 1.5, accepted is a number from 0.0001 to 0.9: the chance of each chunk"
    assert refusal_of(amount=2).endswith("is 2.0, accepted is none, because it means nothing here")
    assert refusal_of(amount="much") == 'amount of fault 1 is "much", accepted is a number'
    assert "NaN" in refusal_of(kind="clock-jump", amount=float("nan"))


@pytest.mark.parametrize("count", [0, -3, 10])
def test_too_many_or_too_few_brokers_are_refused(count: int) -> None:
    assert refusal({"brokers": count}) == f"brokers of the plan is {count}, accepted is a number from 1 to 9"


def test_settings_are_those_of_a_broker() -> None:
    assert refusal({"settings": {"log.segment.byte": "1"}}) == (
        "settings of the plan: Unknown configuration 'log.segment.byte' (did you mean log.segment.bytes?)"
    )
    assert refusal({"settings": {"log.segment.bytes": "few"}}).startswith("settings of the plan: Invalid value 'few'")
    assert refusal({"settings": {"log.segment.bytes": 5}}) == "the setting log.segment.bytes is 5, accepted is a string"
    assert refusal({"settings": {"log.dirs": "/x"}}).startswith("the setting log.dirs is given by the simulation")
    assert refusal({"settings": []}).startswith("settings is [], accepted is an object")


def test_a_session_timeout_nobody_could_keep_is_refused() -> None:
    assert refusal({"session_timeout_ms": 5}).endswith("is 5, accepted is a number from 100 to 600000")


def test_the_number_of_a_wrong_fault_is_its_place_in_the_file() -> None:
    faults = [{"at_ms": 900, "kind": "kill-all"}, {"at_ms": 5, "kind": "kill-all", "targets": ["broker-1"]}]
    assert refusal({"faults": faults}).startswith("targets of fault 2 (kill-all)")


def test_power_cuts_damage_only_what_is_not_flushed() -> None:
    cut, flip = fault_of("power-cut"), fault_of("bit-flip")
    assert FaultPlan().is_damaging(cut)
    flushed = FaultPlan(settings={"log.flush.interval.messages": "1"})
    assert not flushed.is_damaging(cut)
    assert flushed.is_damaging(flip)


def test_the_help_tells_of_every_kind() -> None:
    told = describe_menu()
    assert all(f"{kind}: {means.meaning}" in told for kind, means in MENU.items())


def test_a_fault_says_in_a_few_words_what_it_is() -> None:
    fault = Fault(at_ms=30, kind="slow-link", targets=("broker-1", "client"), for_ms=200, amount=50)
    assert fault.sentence() == "30 ms: slow-link broker-1 client amount 50 for 200 ms"
