"""InjectFaults, version 0; ours, not Kafka's, and advertised to nobody.

Behaviour: lets things go wrong on a broker that was started for tests, ends that, and tells what goes wrong now; a broker that was not
started with `tidelog.faults.enable` refuses with POLICY_VIOLATION. Who asks is `tidelog-faults` by its client id, and is itself spared: no
silence of a broker is so complete that it could not be ended.
"""

from __future__ import annotations

from tidelog.broker.faults import Fault, WrongFault
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.messages.inject_faults import (
    BEGIN,
    END,
    LIST,
    FaultKind,
    InjectFaultsRequest,
    InjectFaultsResponse,
)
from tidelog.wire.messages.inject_faults import Fault as FaultOnTheWire

API = ApiKey.INJECT_FAULTS


def handle(node: Node, _context: RequestContext, request: InjectFaultsRequest) -> InjectFaultsResponse:
    """All of it or nothing."""
    if not node.config.faults_enable:
        return InjectFaultsResponse(
            error_code=ErrorCode.POLICY_VIOLATION,
            error_message=f"broker {node.config.broker_id} was not started for tests, with tidelog.faults.enable=true",
        )
    try:
        asked = [_fault(each) for each in request.faults]
        if request.action == BEGIN:
            node.faults.begin(asked)
        elif request.action == END:
            node.faults.end(asked)
        elif request.action != LIST:
            raise WrongFault(f"0 begins faults, 1 ends them, 2 lists them; there is no {request.action}")
    except WrongFault as wrong:
        return InjectFaultsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=str(wrong))
    return InjectFaultsResponse(
        error_code=ErrorCode.NONE, faults=tuple(_on_the_wire(each) for each in node.faults.standing)
    )


def _fault(asked: FaultOnTheWire) -> Fault:
    if asked.kind not in set(FaultKind):
        raise WrongFault(f"there is no fault {asked.kind!r}; there are {', '.join(FaultKind)}")
    if asked.api_key != -1 and asked.api_key not in API_TABLE:
        raise WrongFault(f"there is no API {asked.api_key}")
    return Fault(
        kind=FaultKind(asked.kind),
        peer=asked.peer_id,
        is_of_brokers=asked.is_of_brokers,
        api=None if asked.api_key == -1 else ApiKey(asked.api_key),
        error=asked.error,
        delay_ms=asked.delay_ms,
        times=asked.times,
    )


def _on_the_wire(fault: Fault) -> FaultOnTheWire:
    return FaultOnTheWire(
        kind=fault.kind,
        peer_id=fault.peer,
        is_of_brokers=fault.is_of_brokers,
        api_key=-1 if fault.api is None else fault.api,
        error=fault.error,
        delay_ms=fault.delay_ms,
        times=fault.times,
    )
