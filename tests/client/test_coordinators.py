"""Finding out who looks after a group: what is asked how often, what is remembered, and when it is given up."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.client.scripted_brokers import ScriptedBrokers
from tests.client.test_moving_leaders import properties
from tidelog.client import BrokersUnreachable, ClientConfig, Cluster, RequestRefused
from tidelog.client.coordinators import CoordinatorQuestions, Coordinators
from tidelog.model import BrokerId, ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")


def asked(brokers: ScriptedBrokers, ask: Callable[[Coordinators], Coroutine[Any, Any, T]], **settings: str) -> T:
    async def story(runtime: Runtime) -> T:
        config = ClientConfig.from_properties(properties(brokers, **settings))
        async with Cluster(config, runtime) as cluster:
            return await ask(Coordinators(cluster, config, runtime))

    return brokers.run(story)


def answering(answer_of: Callable[[str], BrokerId | ErrorCode]) -> Callable[[BrokerId, Any], FindCoordinatorResponse]:
    def script(_node: BrokerId, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        rows = []
        for key in request.coordinator_keys:
            answer = answer_of(key)
            code = answer if isinstance(answer, ErrorCode) else ErrorCode.NONE
            node_id = -1 if isinstance(answer, ErrorCode) else answer
            rows.append(Coordinator(key=key, node_id=node_id, host="h", port=1, error_code=code))
        return FindCoordinatorResponse(coordinators=tuple(rows))

    return script


def questions_of(brokers: ScriptedBrokers) -> list[tuple[str, ...]]:
    return [one.coordinator_keys for _, _, one in brokers.asked if isinstance(one, FindCoordinatorRequest)]


def test_a_coordinator_is_asked_for_once_and_remembered_until_it_is_forgotten() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(lambda _key: 2)

    async def ask(coordinators: Coordinators) -> list[BrokerId]:
        found = [await coordinators.of("g"), await coordinators.of("g")]
        coordinators.forget("g")
        coordinators.forget("never heard of")
        return [*found, await coordinators.of("g")]

    assert asked(brokers, ask) == [2, 2, 2]
    assert questions_of(brokers) == [("g",), ("g",)]


def test_several_groups_are_one_question() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(
        lambda key: {"a": 1, "b": 3}.get(key, ErrorCode.INVALID_GROUP_ID)
    )
    found = asked(brokers, lambda coordinators: coordinators.of_each(["a", "b", ""]))
    assert found == {"a": 1, "b": 3, "": ErrorCode.INVALID_GROUP_ID}
    assert questions_of(brokers) == [("a", "b", "")]


def test_a_broker_whose_id_is_the_number_of_an_error_is_a_broker() -> None:
    brokers = ScriptedBrokers(15, 16)
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(lambda _key: 15)
    assert asked(brokers, lambda coordinators: coordinators.of("g")) == 15
    assert len(questions_of(brokers)) == 1


def test_one_that_is_not_available_yet_is_asked_for_again() -> None:
    brokers = ScriptedBrokers()
    answers: list[BrokerId | ErrorCode] = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE, 3]
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(lambda _key: answers.pop(0))
    assert asked(brokers, lambda coordinators: coordinators.of("g")) == 3


def test_the_search_ends_after_default_api_timeout_ms_with_the_last_error() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(lambda _key: ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(RequestRefused) as refusal:
        asked(brokers, lambda coordinators: coordinators.of("g"), **{"default.api.timeout.ms": "5000"})
    assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 3 < len(questions_of(brokers)) < 100


def test_a_refusal_that_time_does_not_cure_is_not_repeated() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(lambda _key: ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(RequestRefused, match="GROUP_AUTHORIZATION_FAILED"):
        asked(brokers, lambda coordinators: coordinators.of("g"))
    assert len(questions_of(brokers)) == 1


def test_brokers_that_do_not_answer_are_unreachable() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.FIND_COORDINATOR] = lambda _node, _request: None
    limits = {"default.api.timeout.ms": "5000", "request.timeout.ms": "1000"}
    with pytest.raises(BrokersUnreachable):
        asked(brokers, lambda coordinators: coordinators.of("g"), **limits)


def test_a_question_follows_a_group_to_its_new_coordinator() -> None:
    brokers = ScriptedBrokers()
    where: list[BrokerId] = [1, 2]
    brokers.scripts[ApiKey.FIND_COORDINATOR] = answering(lambda _key: where.pop(0))
    heard: list[BrokerId] = []

    async def ask_one(node: BrokerId, group_ids: Any) -> dict[str, str | ErrorCode]:
        heard.append(node)
        if node == 1:
            return dict.fromkeys(group_ids, ErrorCode.NOT_COORDINATOR)
        loads = len(heard) < 3
        return dict.fromkeys(group_ids, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loads else "here")

    async def story(runtime: Runtime) -> dict[str, str | ErrorCode]:
        config = ClientConfig.from_properties(properties(brokers))
        async with Cluster(config, runtime) as cluster:
            return await CoordinatorQuestions(cluster, config, runtime).ask(["g"], ask_one)

    assert brokers.run(story) == {"g": "here"}
    assert heard == [1, 2, 2]  # who loads is asked again, without another look-up
    assert len(questions_of(brokers)) == 2
