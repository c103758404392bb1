"""Ending a transaction that another process has written and prepared."""

from __future__ import annotations

import asyncio

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import ProducerFenced, TransactionPending, TransactionRefused
from tidelog.client.transactions.answers import Meaning, meaning_of
from tidelog.client.transactions.conversation import Conversation
from tidelog.client.transactions.prepared import PreparedTransaction


async def finish_transaction(
    cluster: Cluster,
    config: ClientConfig,
    runtime: ClientRuntime,
    prepared: PreparedTransaction,
    *,
    is_committed: bool,
) -> None:
    """Commit or abort what `prepare_transaction` of another process returned, without writing under its name.

    May be repeated with the same outcome until the transactional id is used again. Raises ProducerFenced where the transaction has timed
    out or somebody has taken over the id; TransactionRefused, for instance where it has ended the other way; TransactionPending after
    default.api.timeout.ms.
    """
    if prepared.producer is None:
        return
    conversation = Conversation(cluster, config, runtime)
    try:
        async with asyncio.timeout(config.default_api_timeout_ms / 1000):
            answer = await conversation.end(
                prepared.transactional_id, prepared.producer, is_committed=is_committed, is_version_two=None
            )
    except TimeoutError:
        raise TransactionPending(
            f"whether {prepared} has ended is not known after default.api.timeout.ms={config.default_api_timeout_ms} "
            f"({conversation.trouble}); ask again"
        ) from None
    match meaning_of(answer.error_code):
        case Meaning.DONE:
            return
        case Meaning.FENCED:
            raise ProducerFenced(f"{prepared} is nobody's transaction any more: {answer.error_code.name}")
        case _:
            raise TransactionRefused(answer.error_code, f"EndTxn of {prepared}")
