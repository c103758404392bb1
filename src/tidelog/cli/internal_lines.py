"""Records of internal topics as lines for people: those that Kafka's formatters printed before they printed JSON. A committed offset stands as
in Kafka 1, `[group,topic,partition]::[OffsetMetadata[offset,metadata],CommitTime t,ExpirationTime t]`, which says all there is.

What cannot be read is given as the word that says so; the fields are those of the JSON."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordinator.transaction.states import TransactionStatus

_TOMBSTONE: Final = "NULL"


def offset_text(key: dict[str, Any] | str, value: dict[str, Any] | str | None) -> str:
    """A committed offset. A record without a time of expiry leaves that to `offsets.retention.minutes`."""
    place = key if isinstance(key, str) else f"[{key['group']},{key['topic']},{key['partition']}]"
    if value is None or isinstance(value, str):
        return f"{place}::{value or _TOMBSTONE}"
    position = f"OffsetMetadata[{value['offset']},{value['metadata'] or 'NO_METADATA'}]"
    times = f"CommitTime {value['commitTimestamp']},ExpirationTime {value.get('expireTimestamp', '_')}"
    return f"{place}::[{position},{times}]"


def group_text(key: dict[str, Any] | str, value: dict[str, Any] | str | None) -> str:
    """A classic group with its members; whoever reads it back finds it stable, or empty."""
    group = key if isinstance(key, str) else key["group"]
    if value is None or isinstance(value, str):
        return f"{group}::{value or _TOMBSTONE}"
    members = ", ".join(f"{each['memberId']} -> {_member_text(each)}" for each in value["members"])
    state = "Stable" if value["members"] else "Empty"
    shown = {
        "groupId": group,
        "generation": value["generation"],
        "protocolType": _option(value["protocolType"]),
        "currentState": state,
        "members": f"Map({members})",
    }
    return f"{group}::GroupMetadata({_listed(shown)})"


def transaction_text(key: dict[str, Any] | str, value: dict[str, Any] | str | None) -> str:
    """A transactional id and the transaction it is in."""
    transactional_id = key if isinstance(key, str) else key["transactionalId"]
    if value is None or isinstance(value, str):
        return f"{transactional_id}::{value or _TOMBSTONE}"
    topics = value["transactionPartitions"] or []
    partitions = ", ".join(f"{each['topic']}-{index}" for each in topics for index in each["partitionIds"])
    shown = {
        "transactionalId": transactional_id,
        "producerId": value["producerId"],
        "producerEpoch": value["producerEpoch"],
        "txnTimeoutMs": value["transactionTimeoutMs"],
        "state": TransactionStatus(value["transactionStatus"]).label,
        "pendingState": "None",
        "topicPartitions": f"Set({partitions})",
        "txnStartTimestamp": value["transactionStartTimestampMs"],
        "txnLastUpdateTimestamp": value["transactionLastUpdateTimestampMs"],
    }
    return f"{transactional_id}::TransactionMetadata({_listed(shown)})"


def _member_text(member: dict[str, Any]) -> str:
    shown = {
        "memberId": member["memberId"],
        "groupInstanceId": _option(member.get("groupInstanceId")),
        "clientId": member["clientId"],
        "clientHost": member["clientHost"],
        "sessionTimeoutMs": member["sessionTimeout"],
        "rebalanceTimeoutMs": member.get("rebalanceTimeout", member["sessionTimeout"]),
    }
    return f"MemberMetadata({_listed(shown)})"


def _listed(shown: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _option(value: str | None) -> str:
    return "None" if value is None else f"Some({value})"
